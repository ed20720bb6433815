package tree

import (
	"context"
	"iter"

	"github.com/kist-vcs/kist/object"
)

// threeWay is a path that both sides changed.
type threeWay struct {
	path               string
	base, ours, theirs *object.Entry

	merged *object.Entry // the merged version of ours, if any

	// After a rename:
	from     string // the path of base
	oursAt   string // the path in ours, if not path
	theirsAt string // the path in theirs, if not path
}

// changes iterates over the changes of a side, one change for each path.
func (m *merger) changes(ctx context.Context, side object.ID, paths ...string) iter.Seq2[Change, error] {
	return Diff(ctx, m.rw, m.Base, side, DiffOptions{Recursive: true, Paired: true, Paths: paths})
}

// compare finds the changes of both sides. A change of theirs alone becomes an
// edit. A path that both changed goes to m.both.
func (m *merger) compare(ctx context.Context) error {
	nextOurs, stop := iter.Pull2(m.changes(ctx, m.Ours))
	defer stop()
	nextTheirs, stop := iter.Pull2(m.changes(ctx, m.Theirs))
	defer stop()
	m.replaced, m.overDirs = make(map[string]threeWay), make(map[string]overDir)

	o, errO, moreO := nextOurs()
	t, errT, moreT := nextTheirs()
	for moreO || moreT {
		if errO != nil {
			return errO
		}
		if errT != nil {
			return errT
		}
		order := 0
		switch {
		case !moreT:
			order = -1
		case !moreO:
			order = 1
		default:
			order = ComparePaths(o.Path, t.Path)
		}
		switch {
		case order < 0:
			m.keep(o)
		case order > 0:
			if err := m.take(ctx, t); err != nil {
				return err
			}
		default:
			w := threeWay{path: o.Path, base: o.Old, ours: o.New, theirs: t.New}
			m.both = append(m.both, w)
			m.noteReplaced(w)
		}
		if order <= 0 {
			o, errO, moreO = nextOurs()
		}
		if order >= 0 {
			t, errT, moreT = nextTheirs()
		}
	}

	return nil
}

// keep records a change of ours alone, if it matters for changes of theirs.
func (m *merger) keep(c Change) {
	if isDir(c.Old) && c.New == nil {
		m.edit(opRestore, c.Path, c.Old)
	}
	m.noteReplaced(threeWay{path: c.Path, base: c.Old, ours: c.New})
}

func (m *merger) noteReplaced(w threeWay) {
	if isDir(w.base) && w.ours != nil && !isDir(w.ours) {
		m.replaced[w.path] = w
	}
}

// take adds the edit for a change of theirs alone.
func (m *merger) take(ctx context.Context, c Change) error {
	switch {
	case c.New == nil && isDir(c.Old):
		m.edit(opOffer, c.Path, c.Old)
	case c.New == nil:
		m.edit(opRemove, c.Path, nil)
	case isDir(c.New):
		m.edit(opSetDir, c.Path, c.New)
	case isDir(c.Old):
		m.setOverDir(c.Path, c.New)
	case sameContent(c.Old, c.New): // the mtime of ours stays
		e, err := Find(ctx, m.rw, m.Ours, c.Path)
		if err != nil {
			return err
		}
		e.Mode, e.Meta = c.New.Mode, c.New.Meta
		m.edit(opSet, c.Path, &e)
	default:
		m.edit(opSet, c.Path, c.New)
	}

	return nil
}

func isDir(e *object.Entry) bool { return e != nil && e.Type == object.TypeDir }

// setOverDir adds the edit that replaces a directory by an entry of theirs.
func (m *merger) setOverDir(path string, e *object.Entry) {
	m.overDirs[path] = overDir{len(m.edits), e}
	m.edit(opSet, path, e)
}
