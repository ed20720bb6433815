package tree

import (
	"iter"

	"github.com/kist-vcs/kist/object"
)

// threeWay is a path that both sides changed.
type threeWay struct {
	path               string
	base, ours, theirs *object.Entry

	merged *object.Entry // what ours is to become, if it has been merged

	// After a rename:
	from     string // where base was
	oursAt   string // where ours has it, if not at path
	theirsAt string // where theirs has it, if not at path
}

// delta is what one side changed at a path.
type delta struct {
	path     string
	old, new *object.Entry
}

// deltas iterates over what a side changed, one delta a path.
func (m *merger) deltas(side object.ID, paths ...string) iter.Seq2[delta, error] {
	return func(yield func(delta, error) bool) {
		var d delta
		for c, err := range Diff(m.ctx, m.rw, m.base, side, DiffOptions{Recursive: true, Paths: paths}) {
			if err != nil {
				yield(delta{}, err)
				return
			}
			if d.path == c.Path {
				d.new = c.New // a removal, and then an addition
				continue
			}
			if d.path != "" && !yield(d, nil) {
				return
			}
			d = delta{c.Path, c.Old, c.New}
		}
		if d.path != "" {
			yield(d, nil)
		}
	}
}

// compare finds what the sides changed. What only theirs changed becomes an
// edit, what both changed goes to m.both.
func (m *merger) compare() error {
	nextOurs, stop := iter.Pull2(m.deltas(m.ours))
	defer stop()
	nextTheirs, stop := iter.Pull2(m.deltas(m.theirs))
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
			order = ComparePaths(o.path, t.path)
		}
		switch {
		case order < 0:
			m.keep(o)
		case order > 0:
			if err := m.take(t); err != nil {
				return err
			}
		default:
			w := threeWay{path: o.path, base: o.old, ours: o.new, theirs: t.new}
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

// keep notes what only ours changed, as far as it matters to theirs.
func (m *merger) keep(d delta) {
	if isDir(d.old) && d.new == nil {
		m.edit(opRestore, d.path, d.old)
	}
	m.noteReplaced(threeWay{path: d.path, base: d.old, ours: d.new})
}

func (m *merger) noteReplaced(w threeWay) {
	if isDir(w.base) && w.ours != nil && !isDir(w.ours) {
		m.replaced[w.path] = w
	}
}

// take does to ours what only theirs changed.
func (m *merger) take(d delta) error {
	switch {
	case d.new == nil && isDir(d.old):
		m.edit(opOffer, d.path, d.old)
	case d.new == nil:
		m.edit(opRemove, d.path, nil)
	case isDir(d.new):
		m.edit(opSetDir, d.path, d.new)
	case isDir(d.old):
		m.setOverDir(d.path, d.new)
	case sameContent(d.old, d.new): // the mtime of ours stays
		e, err := Find(m.ctx, m.rw, m.ours, d.path)
		if err != nil {
			return err
		}
		e.Mode, e.Meta = d.new.Mode, d.new.Meta
		m.edit(opSet, d.path, &e)
	default:
		m.edit(opSet, d.path, d.new)
	}
	return nil
}

func isDir(e *object.Entry) bool { return e != nil && e.Type == object.TypeDir }

// setOverDir puts something that theirs has in the place of a directory.
func (m *merger) setOverDir(path string, e *object.Entry) {
	m.overDirs[path] = overDir{len(m.edits), e}
	m.edit(opSet, path, e)
}
