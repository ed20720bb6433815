package index

import (
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// Conflict is a path that a merge could not decide on: what the merge base and
// both sides have there, nil where one has nothing. The entry at the path, if
// any, is independent of it.
type Conflict struct {
	Path               string
	Base, Ours, Theirs *object.Entry
}

// ErrConflict is matched by every [*ConflictError].
var ErrConflict = errors.New("unresolved conflicts")

// ConflictError says that no tree can be written while there are conflicts.
type ConflictError struct{ Paths []string }

func (e *ConflictError) Error() string {
	if len(e.Paths) == 1 {
		return fmt.Sprintf("%v: %q", ErrConflict, e.Paths[0])
	}
	return fmt.Sprintf("%v: %q and %d more", ErrConflict, e.Paths[0], len(e.Paths)-1)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// SetConflict notes a conflict at path, in place of one that is there. The
// entries' names are those of the path, whatever they say. They are the
// index's from then on. A path that no tree could hold is a [*PathError].
func (x *Index) SetConflict(path string, base, ours, theirs *object.Entry) error {
	if err := checkPath(path); err != nil {
		return err
	}
	_, name := split(path)
	c := Conflict{Path: path, Base: base, Ours: ours, Theirs: theirs}
	for _, side := range c.sides() {
		if *side == nil {
			continue
		}
		named := **side
		named.Name = name
		if err := checkSide(&named); err != nil {
			return &PathError{path, err}
		}
		*side = &named
	}
	x.conflicts = x.conflictNotes().put(c)
	x.changed = true
	return nil
}

// ClearConflict removes the conflict at path and reports whether there was one.
func (x *Index) ClearConflict(path string) bool {
	list, ok := x.conflictNotes().clearOne(path)
	x.conflicts, x.changed = list, x.changed || ok
	return ok
}

// Conflict returns the conflict at path.
func (x *Index) Conflict(path string) (Conflict, bool) {
	if i, ok := x.conflictNotes().find(path); ok {
		return x.conflicts[i], true
	}
	return Conflict{}, false
}

// Conflicts returns all conflicts in the order of a walk. The slice is the
// index's and valid until it is next edited.
func (x *Index) Conflicts() []Conflict { return x.conflicts }

// checkSide checks one side of a conflict.
func checkSide(o *object.Entry) error {
	if o.Type == object.TypeDir {
		if o.Content.Kind != object.KindTree || o.Content.ID.IsZero() || o.Mode&^0o7777 != 0 ||
			o.Meta != nil || len(o.Inline) > 0 || o.Target != "" || o.MTime.Nsec >= 1e9 {
			return errors.New("not a directory's entry")
		}
		return nil
	}
	e := NewEntry(*o, Stat{})
	return checkEntry(&e)
}
