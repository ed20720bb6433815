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
	Old    object.ID // the present value; zero: the ref does not exist
	New    object.ID // the new value; zero: delete the ref; equal to Old: only check it
	Reason string    // for the log
}

// Update makes all changes, or none if one is impossible. The error is a
// [*MovedError] if a ref does not have its expected value. It is a
// [*ConflictError] if a name would be a folder in the name of another, even if
// the same update deletes the other: delete it first. A name may occur once.
// Every move of a branch is logged, also in HEAD's log if HEAD is on it. The
// log of a deleted ref is deleted.
//
// Each ref has its old or its new value at every moment. When Update returns,
// the changes are on disk. Only if the process or the disk fails in between
// may some of several refs be changed and others not.
//
// The objects must be on disk before. Call Update while the store that holds
// them publishes.
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

// A move is a checked change.
type move struct {
	Change
	head bool // HEAD is on the ref: log the move in HEAD's log, too
}

// check checks changes and returns the moves that make them.
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

// headFor reads HEAD if the changes concern it. A missing HEAD, as in a new
// repository, is on no branch.
func (s *Store) headFor(changes []Change) (value, error) {
	for _, c := range changes {
		if c.Name == "HEAD" || strings.HasPrefix(c.Name, Heads) {
			head, _, err := s.value("HEAD")
			return head, err
		}
	}
	return value{}, nil
}

// current returns the value of a ref, zero if it does not exist.
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

// checkFree returns a [*ConflictError] if a new ref collides with another, on
// disk or in the same update.
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

// apply makes moves. It writes the logs and the new files first, to see
// whether there is room, then renames, then deletes.
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

// delete removes refs and then, after a sync, their logs.
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

// A logLine is a log entry for the move of a file.
type logLine struct {
	name  string
	entry LogEntry
	file  string // the ref, or HEAD
}

// replace adds lines to logs and replaces files. It first syncs the lines and
// the new files, and then renames the files. If a step fails, it removes the
// lines for files that were not renamed.
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
