package tree

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// separate resolves paths that were directories in base, if one side replaced
// the directory and the other side has something in it that stays. The
// directory stays, and the other entry is put aside.
func (m *merger) separate(ctx context.Context) error {
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
			theirs, err := Find(ctx, m.rw, m.Theirs, dir)
			if err != nil {
				return err
			}
			aside, err := m.putAside(ctx, dir, m.opts.Labels.Ours, cmp.Or(w.merged, w.ours))
			if err != nil {
				return err
			}
			m.edit(opSetDir, dir, &theirs)
			m.conflict(Conflict{Path: dir, Kind: ConflictFileDirectory, Base: w.base, Ours: w.ours, Theirs: &theirs, OursPath: aside})
		}
	}

	for _, path := range slices.SortedFunc(maps.Keys(m.overDirs), ComparePaths) {
		over := m.overDirs[path]
		stays, err := m.staysBelow(ctx, path)
		if err != nil {
			return err
		}
		if !stays {
			continue
		}
		dir, err := Find(ctx, m.rw, m.Ours, path)
		if err != nil {
			return err
		}
		there := &m.edits[over.edit]
		there.op = opNothing
		aside, err := m.putAside(ctx, path, m.opts.Labels.Theirs, &there.entry)
		if err != nil {
			return err
		}
		base, err := Find(ctx, m.rw, m.Base, path)
		if err != nil {
			return err
		}
		m.conflict(Conflict{Path: path, Kind: ConflictFileDirectory, Base: &base, Ours: &dir, Theirs: over.theirs, TheirsPath: aside})
	}

	return nil
}

// staysBelow reports whether ours added or changed something in a directory
// that theirs removed.
func (m *merger) staysBelow(ctx context.Context, dir string) (bool, error) {
	for c, err := range m.changes(ctx, m.Ours, dir) {
		if err != nil {
			return false, err
		}
		if c.Path != dir && c.New != nil && (!isDir(c.New) || !isDir(c.Old)) && !m.movedAway[c.Path] {
			return true, nil
		}
	}
	return false, nil
}

// putAside sets a version of path under a free name next to it, and returns that path.
func (m *merger) putAside(ctx context.Context, path, label string, e *object.Entry) (string, error) {
	dir, name := Split(path)
	label = "~" + strings.NewReplacer("/", "_", "\x00", "_").Replace(label)
	label = label[:min(len(label), object.MaxNameSize/2)]
	for n := 0; ; n++ {
		suffix := label
		if n > 0 {
			suffix += fmt.Sprint("_", n)
		}
		aside := Join(dir, name[:min(len(name), object.MaxNameSize-len(suffix))]+suffix)
		free, err := m.isFree(ctx, aside)
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

// isFree reports whether path is free in both sides and among the versions put
// aside. No other edit makes a new path.
func (m *merger) isFree(ctx context.Context, path string) (bool, error) {
	if _, name := Split(path); object.CheckName(name) != nil {
		return false, nil
	}
	if m.asides[path] {
		return false, nil
	}

	d := differ{r: m.rw}
	for _, side := range []object.ID{m.Ours, m.Theirs} {
		if e, err := d.find(ctx, side, path); e != nil || err != nil {
			return false, err
		}
	}

	return true, nil
}
