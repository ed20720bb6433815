package tree

import (
	"cmp"
	"context"

	"github.com/kist-vcs/kist/object"
)

// followRenames finds the new paths of files that one side removed and the
// other side removed or changed. A file that became a directory counts as
// removed.
func (m *merger) followRenames(ctx context.Context) error {
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

	ours, err := m.moves(ctx, m.Ours, byOurs)
	if err != nil {
		return err
	}

	theirs, err := m.moves(ctx, m.Theirs, byTheirs)
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

// isGone reports whether an entry is no file.
func isGone(e *object.Entry) bool { return e == nil || e.Type == object.TypeDir }

// moves returns the new paths of files that a side removed, by old path.
func (m *merger) moves(ctx context.Context, side object.ID, removed map[string]bool) (map[string]*moved, error) {
	if len(removed) == 0 {
		return nil, nil
	}

	matcher := renameMatcher{r: m.rw, threshold: uint64(cmp.Or(m.opts.Renames.Threshold, defaultThreshold))}
	for c, err := range m.changes(ctx, side) {
		switch {
		case err != nil:
			return nil, err
		case isGone(c.New) && movable(c.Old):
			matcher.olds = append(matcher.olds, moved{path: c.Path, entry: c.Old})
		case isGone(c.Old) && movable(c.New):
			matcher.news = append(matcher.news, moved{path: c.Path, entry: c.New})
		}
	}

	err := matcher.run(ctx, func(old *moved) bool { return removed[old.path] })
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

// followRename merges a file that one side moved and the other changed at its
// new path. If the other side has something at the new path, too, it does
// nothing.
func (m *merger) followRename(w *threeWay, to *moved, at map[string]int) {
	if i, ok := at[to.path]; ok {
		there := &m.both[i]
		if there.path != to.path || !isGone(there.ours) && !isGone(there.theirs) || isDir(there.ours) || isDir(there.theirs) {
			return
		}
		*there = threeWay{path: to.path} // it replaced a directory that both removed
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

// bothRemoved handles a file that both sides removed and at least one side
// moved.
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
	default: // moved to the same path; both may have changed it
		if i, ok := at[ours.path]; ok && m.both[i].base == nil {
			m.both[i].base, m.both[i].from = w.base, w.path
		}
	}
}
