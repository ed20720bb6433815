package refs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Rename renames a branch with its log, and HEAD if it is on the branch. Both
// names are full. The error matches [ErrNotFound] if the branch does not
// exist. It is a [*MovedError] if the new name exists, or a [*ConflictError]
// if another ref, or the branch itself, is in the way. A process that dies in
// between leaves both names.
func (s *Store) Rename(ctx context.Context, from, to string, who Who) error {
	if !strings.HasPrefix(from, Heads) || !strings.HasPrefix(to, Heads) {
		return &NameError{Name: from, Reason: "only branches can be renamed"}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	id, err := s.Get(from)
	if err != nil {
		return err
	}

	head, _, err := s.value("HEAD")
	if err != nil {
		return err
	}
	if have, err := s.current(to, head); err != nil || !have.IsZero() {
		return errors.Join(err, movedTo(to, have))
	}
	if err := s.checkFree(move{Change: Change{Name: to, New: id}}, nil); err != nil {
		return err
	}
	if err := s.rename(from, to, id, head.target == from, who); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}

	return nil
}

func movedTo(name string, have object.ID) error {
	if have.IsZero() {
		return nil
	}
	return &MovedError{Name: name, Have: have}
}

// rename makes the new log, the new ref and the new HEAD, in this order, and
// then removes the old ref and its log.
func (s *Store) rename(from, to string, id object.ID, onHead bool, who Who) error {
	e, err := s.newEntry(id, id, who, "branch: renamed "+from+" to "+to)
	if err != nil {
		return err
	}

	log, _, err := s.read("logs/"+from, maxLogSize)
	if err != nil {
		return err
	}

	made, err := s.makeLogDirs(to)
	if err != nil {
		return err
	}
	if err := syncDirs(made); err != nil {
		return err
	}

	log = append(log[:intactLines(log)], encodeEntry(e)...)
	if err := s.write(file{"logs/" + to, log}); err != nil {
		return err
	}
	if err := s.write(file{to, value{id: id}.encode()}); err != nil {
		return err
	}
	if onHead {
		if err := s.setHead(value{target: to}, id, id, who, e.Reason); err != nil {
			return err
		}
	}

	return s.delete([]string{from})
}
