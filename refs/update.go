package refs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Change moves, makes or deletes one ref.
type Change struct {
	Name   string    // full; "HEAD" is the branch that HEAD is on, or HEAD itself when it is detached
	Old    object.ID // where the ref is now; zero: it does not exist
	New    object.ID // where it is to be; zero: it is to be deleted. Equal to Old: only to be checked
	Reason string    // for the log
}

// Update makes the changes, or none of them if one cannot be made: a ref that
// is not where its change says is a [*MovedError], a name that would be a
// folder in another's, or the other way round, a [*ConflictError] (also if
// the other is deleted by the same update: delete it before). A name may
// occur once. Every move of a branch is logged, and in HEAD's log too if HEAD
// is on it; with a ref its log is deleted.
//
// Each ref has its old value or its new one at every moment, and what Update
// has done is on disk when it returns. Only if the process or the disk fails
// in the middle may some of several refs be changed and others not.
//
// The objects must be on disk before: call it from within the publishing of
// the store that holds them.
func (s *Store) Update(ctx context.Context, changes []Change, who Who) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	moves, err := s.check(changes)
	if err != nil {
		return err
	}
	return s.apply(moves, who)
}

// A move is a change that was checked and is to be made.
type move struct {
	Change
	head bool // HEAD is on it: log the move in its log too
}

// check returns what is to be done to make changes.
func (s *Store) check(changes []Change) ([]move, error) {
	head, err := s.headFor(changes)
	if err != nil {
		return nil, err
	}
	moves := make([]move, 0, len(changes))
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if c.Name == "HEAD" && head.target != "" {
			c.Name = head.target
		}
		have, err := s.current(c.Name, head)
		switch {
		case err != nil:
			return nil, err
		case seen[c.Name]:
			return nil, &NameError{Name: c.Name, Reason: "is changed twice"}
		case have != c.Old:
			return nil, &MovedError{Name: c.Name, Want: c.Old, Have: have}
		case c.Name == "HEAD" && c.New.IsZero():
			return nil, &NameError{Name: c.Name, Reason: "cannot be deleted"}
		}
		seen[c.Name] = true
		if c.Old != c.New {
			moves = append(moves, move{Change: c, head: c.Name == head.target})
		}
	}
	for _, m := range moves {
		if err := s.checkFree(m, seen); err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// headFor reads HEAD if the changes have to do with it. A HEAD that is not
// there, as in a repository that is being made, is on no branch.
func (s *Store) headFor(changes []Change) (value, error) {
	for _, c := range changes {
		if c.Name == "HEAD" || strings.HasPrefix(c.Name, Heads) {
			head, _, err := s.value("HEAD")
			return head, err
		}
	}
	return value{}, nil
}

// current returns where a ref is, zero if it does not exist.
func (s *Store) current(name string, head value) (object.ID, error) {
	if name == "HEAD" {
		if head == (value{}) {
			return object.ID{}, &CorruptError{File: "HEAD", Err: errors.New("missing")}
		}
		return head.id, nil
	}
	id, err := s.Get(name)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return id, err
}

// checkFree says whether a ref that is to be made has no other in its way: on
// disk, or among those of the same update.
func (s *Store) checkFree(m move, names map[string]bool) error {
	if !m.Old.IsZero() || m.Name == "HEAD" {
		return nil
	}
	for i := len("refs/"); ; {
		next := strings.IndexByte(m.Name[i:], '/')
		if next < 0 {
			break
		}
		i += next + 1
		above := m.Name[:i-1]
		_, found, err := s.read(above, maxValueSize)
		if found || errors.Is(err, object.ErrCorrupt) || names[above] {
			return &ConflictError{Name: m.Name, With: above}
		}
		if err != nil {
			return err
		}
	}
	below, err := s.names("refs", m.Name+"/")
	if err == nil && len(below) > 0 {
		err = &ConflictError{Name: m.Name, With: below[0]}
	}
	return err
}

// apply makes moves: the logs and the new files first, to see whether there
// is room, then the renames, then the deletions.
func (s *Store) apply(moves []move, who Who) error {
	var lines []logLine
	var files []file
	var gone []string
	for _, m := range moves {
		e, err := s.newEntry(m.Old, m.New, who, m.Reason)
		if err != nil {
			return err
		}
		if m.New.IsZero() {
			gone = append(gone, m.Name)
		} else {
			files = append(files, file{m.Name, value{id: m.New}.encode()})
			if logged(m.Name) {
				lines = append(lines, logLine{m.Name, e, m.Name})
			}
		}
		if m.head {
			lines = append(lines, logLine{"HEAD", e, m.Name})
		}
	}
	if err := s.replace(lines, files); err != nil {
		return fmt.Errorf("update refs: %w", err)
	}
	if err := s.delete(gone); err != nil {
		return fmt.Errorf("update refs: %w", err)
	}
	return nil
}

// delete removes refs, and when they are gone for certain, their logs.
func (s *Store) delete(names []string) error {
	for _, prefix := range []string{"", "logs/"} {
		var dirs []string
		for _, name := range names {
			dir, err := s.remove(prefix + name)
			if err != nil {
				return err
			}
			dirs = append(dirs, dir)
		}
		if err := syncDirs(dirs); err != nil {
			return err
		}
	}
	return nil
}

// A logLine is an entry for the log of a name, because of a file's move.
type logLine struct {
	name  string
	entry LogEntry
	file  string // the ref, or HEAD
}

// replace adds lines to logs and replaces files: first the lines and the
// files' bytes go to disk, then the files are renamed into their places. If
// something fails before, the lines are taken away again.
func (s *Store) replace(lines []logLine, files []file) error {
	added := make([]appended, len(lines))
	var place func() (int, error)
	err := each(len(lines)+1, func(i int) (err error) {
		if i == len(lines) {
			place, err = s.stage(files)
		} else {
			added[i], err = s.appendLog(lines[i].name, lines[i].entry)
		}
		return err
	})
	var dirs []string
	for _, a := range added {
		dirs = append(dirs, a.dirs...)
	}
	if err == nil {
		err = syncDirs(dirs)
	}
	placed := 0
	if err == nil {
		placed, err = place()
	} else {
		err = errors.Join(err, s.clean())
	}
	if err == nil {
		return nil
	}
	moved := make(map[string]bool)
	for _, f := range files[:placed] {
		moved[f.name] = true
	}
	for i, a := range added {
		if !moved[lines[i].file] {
			a.undo()
		}
	}
	return err
}
