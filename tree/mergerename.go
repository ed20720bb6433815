package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// followRenames looks for files that one side removed, and the other removed
// or changed, at other paths of that side. A file that became a directory was
// removed, too.
func (m *merger) followRenames() error {
	byOurs, byTheirs := map[string]bool{}, map[string]bool{}
	at := make(map[string]int, len(m.both))
	for i, w := range m.both {
		at[w.path] = i
		if w.base != nil && w.base.Type == object.TypeFile {
			if isGone(w.ours) {
				byOurs[w.path] = true
			}
			if isGone(w.theirs) {
				byTheirs[w.path] = true
			}
		}
	}
	ours, err := m.moves(m.ours, byOurs)
	if err != nil {
		return err
	}
	theirs, err := m.moves(m.theirs, byTheirs)
	if err != nil {
		return err
	}
	if len(ours)+len(theirs) == 0 {
		return nil
	}
	for i := range m.both {
		w := &m.both[i]
		o, t := ours[w.path], theirs[w.path]
		switch {
		case o == nil && t == nil:
		case byOurs[w.path] && byTheirs[w.path]:
			m.bothRemoved(*w, o, t, at)
		default:
			m.followRename(w, cmp.Or(o, t), at)
		}
	}
	return nil
}

// isGone reports whether there is no file any more.
func isGone(e *object.Entry) bool { return e == nil || e.Type == object.TypeDir }

// moves returns where files went that a side removed, by their old paths.
func (m *merger) moves(side object.ID, removed map[string]bool) (map[string]*moved, error) {
	if len(removed) == 0 {
		return nil, nil
	}
	matcher := renameMatcher{ctx: m.ctx, r: m.rw, threshold: uint64(cmp.Or(m.opts.Renames.Threshold, defaultThreshold))}
	for d, err := range m.deltas(side) {
		switch {
		case err != nil:
			return nil, err
		case isGone(d.new) && movable(d.old):
			matcher.olds = append(matcher.olds, moved{path: d.path, entry: d.old})
		case isGone(d.old) && movable(d.new):
			matcher.news = append(matcher.news, moved{path: d.path, entry: d.new})
		}
	}
	err := matcher.run(func(old *moved) bool { return removed[old.path] })
	if err != nil {
		return nil, err
	}
	found := make(map[string]*moved)
	for i := range matcher.olds {
		if old := &matcher.olds[i]; removed[old.path] && old.to != nil && !old.ambiguous {
			found[old.path] = old.to
		}
	}
	return found, nil
}

// followRename turns a file that one side moved and the other changed into a
// path that both changed: the new one. If the other side has something there,
// too, all stays as it is.
func (m *merger) followRename(w *threeWay, to *moved, at map[string]int) {
	if _, clash := at[to.path]; clash {
		return
	}
	from := w.path
	if isGone(w.ours) {
		*w = threeWay{path: to.path, base: w.base, ours: to.entry, theirs: w.theirs, from: from, theirsAt: from}
		return
	}
	if w.theirs == nil {
		m.edit(opRemove, from, nil)
	} else {
		m.edit(opSetDir, from, w.theirs)
	}
	if m.movedAway == nil {
		m.movedAway = make(map[string]bool)
	}
	m.movedAway[from] = true
	*w = threeWay{path: to.path, base: w.base, ours: w.ours, theirs: to.entry, from: from, oursAt: from}
}

// bothRemoved decides about a file that both sides removed and at least one
// has moved.
func (m *merger) bothRemoved(w threeWay, ours, theirs *moved, at map[string]int) {
	switch {
	case theirs == nil:
		m.conflict(Conflict{Path: ours.path, Kind: ConflictRenameDelete, Base: w.base, Ours: ours.entry, From: w.path})
	case ours == nil:
		m.conflict(Conflict{Path: theirs.path, Kind: ConflictRenameDelete, Base: w.base, Theirs: theirs.entry, From: w.path})
	case ours.path != theirs.path:
		m.conflict(Conflict{
			Path: w.path, Kind: ConflictRenameRename, Base: w.base, Ours: ours.entry, Theirs: theirs.entry,
			OursPath: ours.path, TheirsPath: theirs.path,
		})
	default: // moved to the same place, where both may have changed it
		if i, ok := at[ours.path]; ok && m.both[i].base == nil {
			m.both[i].base, m.both[i].from = w.base, w.path
		}
	}
}

// separate resolves what is a directory and something else at once: paths that
// were directories in base, where one side has something else, and the other
// has something in the directory that stays.
func (m *merger) separate() error {
	for i := 0; i < len(m.edits) && len(m.replaced) > 0; i++ {
		if op := m.edits[i].op; op != opSet && op != opSetDir {
			continue
		}
		for dir, _ := Split(m.edits[i].path); dir != ""; dir, _ = Split(dir) {
			w, ok := m.replaced[dir]
			if !ok {
				continue
			}
			delete(m.replaced, dir)
			theirs, err := Find(m.ctx, m.rw, m.theirs, dir)
			if err != nil {
				return err
			}
			aside, err := m.putAside(dir, m.opts.Labels.Ours, w.ours)
			if err != nil {
				return err
			}
			m.edit(opSetDir, dir, &theirs)
			m.conflict(Conflict{Path: dir, Kind: ConflictFileDirectory, Base: w.base, Ours: w.ours, Theirs: &theirs, OursPath: aside})
		}
	}
	for _, path := range slices.SortedFunc(maps.Keys(m.overDirs), ComparePaths) {
		i := m.overDirs[path]
		theirs := m.edits[i].entry
		stays, err := m.staysBelow(path)
		if err != nil {
			return err
		}
		if !stays {
			continue
		}
		dir, err := Find(m.ctx, m.rw, m.ours, path)
		if err != nil {
			return err
		}
		m.edits[i].op = opNothing
		aside, err := m.putAside(path, m.opts.Labels.Theirs, &theirs)
		if err != nil {
			return err
		}
		base, err := Find(m.ctx, m.rw, m.base, path)
		if err != nil {
			return err
		}
		m.conflict(Conflict{Path: path, Kind: ConflictFileDirectory, Base: &base, Ours: &dir, Theirs: &theirs, TheirsPath: aside})
	}
	return nil
}

// staysBelow reports whether ours added or changed something below a directory
// that theirs removed.
func (m *merger) staysBelow(dir string) (bool, error) {
	for d, err := range m.deltas(m.ours, dir) {
		if err != nil {
			return false, err
		}
		if d.path != dir && d.new != nil && (!isDir(d.new) || !isDir(d.old)) && !m.movedAway[d.path] {
			return true, nil
		}
	}
	return false, nil
}

// putAside puts a version of path next to it, and returns where.
func (m *merger) putAside(path, label string, e *object.Entry) (string, error) {
	dir, name := Split(path)
	label = "~" + strings.NewReplacer("/", "_", "\x00", "_").Replace(label)
	label = label[:min(len(label), object.MaxNameSize/2)]
	for n := 0; ; n++ {
		suffix := label
		if n > 0 {
			suffix += fmt.Sprint("_", n)
		}
		aside := Join(dir, name[:min(len(name), object.MaxNameSize-len(suffix))]+suffix)
		free, err := m.isFree(aside)
		if err != nil {
			return "", err
		}
		if free {
			if m.asides == nil {
				m.asides = make(map[string]bool)
			}
			m.asides[aside] = true
			m.edit(opSet, aside, e)
			return aside, nil
		}
	}
}

// isFree reports whether nothing is at path, or was put there. What a merge
// puts anywhere else is there in one of the sides.
func (m *merger) isFree(path string) (bool, error) {
	if _, name := Split(path); object.CheckName(name) != nil {
		return false, nil
	}
	if m.asides[path] {
		return false, nil
	}
	d := differ{ctx: m.ctx, r: m.rw}
	for _, side := range []object.ID{m.ours, m.theirs} {
		if e, err := d.find(side, path); e != nil || err != nil {
			return false, err
		}
	}
	return true, nil
}
