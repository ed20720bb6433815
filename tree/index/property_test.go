package index

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// model is a simple implementation of an index.
type model struct {
	entries map[string]Entry
	dirs    map[string]uint16
}

// clear removes path and makes the directories above it.
func (m *model) clear(path string) {
	m.remove(path)
	for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
		delete(m.entries, dir)
		if _, ok := m.dirs[dir]; !ok {
			m.dirs[dir] = defaultDirMode
		}
	}
}

func (m *model) remove(path string) {
	maps.DeleteFunc(m.entries, func(p string, _ Entry) bool { return tree.Below(p, path) })
	maps.DeleteFunc(m.dirs, func(p string, _ uint16) bool { return tree.Below(p, path) })
}

func (m *model) set(path string, e Entry) {
	m.clear(path)
	_, e.Name = tree.Split(path)
	m.entries[path] = e
}

func (m *model) setDir(path string, mode uint16) {
	if _, ok := m.dirs[path]; !ok {
		m.clear(path)
	}
	m.dirs[path] = mode
}

func (m *model) move(from, to string) {
	moved := model{maps.Clone(m.entries), maps.Clone(m.dirs)}
	m.remove(from)
	m.clear(to)
	for path, e := range moved.entries {
		if tree.Below(path, from) {
			m.set(to+path[len(from):], e)
		}
	}
	for path, mode := range moved.dirs {
		if tree.Below(path, from) {
			m.setDir(to+path[len(from):], mode)
		}
	}
}

func (m *model) compare(t *testing.T, x *Index) {
	t.Helper()
	check(t, x)
	entries := map[string]Entry{}
	for path, e := range x.All() {
		entries[path] = *e
	}
	dirs := map[string]uint16{}
	for path, d := range x.Dirs() {
		dirs[path] = d.Mode()
	}
	delete(dirs, "")
	if !maps.Equal(entries, m.entries) || !maps.Equal(dirs, m.dirs) {
		t.Fatalf("index:\n%v\n%v\nmodel:\n%v\n%v", slices.Sorted(maps.Keys(entries)), dirs, slices.Sorted(maps.Keys(m.entries)), m.dirs)
	}
}

// Random edits in several updates give the same index as the model. Loading it gives the same,
// from its files and from a new base.
func TestRandomEdits(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := &model{map[string]Entry{}, map[string]uint16{}}
		dir, store := t.TempDir(), objecttest.NewMemory()
		var last *Index

		for round := range 40 {
			o := Options{}
			if r.IntN(2) == 0 {
				o.From = last
			}
			err := UpdateWith(context.Background(), dir, o, func(x *Index) error {
				x.fold = x.fold || r.IntN(8) == 0
				for range r.IntN(20) {
					randomEdit(t, r, m, x, store)
				}
				m.compare(t, x)
				last = x
				return nil
			})
			must(t, err)
			loaded, err := Load(dir)
			must(t, err)
			m.compare(t, loaded)
			same(t, loaded, last)
			if round%5 == 0 {
				rebased := t.TempDir()
				loaded.fold = true
				must(t, loaded.save(rebased, disk.Write))
				other, err := Load(rebased)
				must(t, err)
				same(t, other, last)
			}
		}
	}
}

func randomEdit(t *testing.T, r *rand.Rand, m *model, x *Index, store object.ReadWriter) {
	path := randomPath(r)
	switch r.IntN(11) {
	case 0, 1, 2:
		e := randomEntry(r)
		must(t, x.Set(path, e))
		m.set(path, e)

	case 3:
		st := file(r.IntN(100)).Stat
		e, ok := m.entries[path]
		if x.SetStat(path, st) != ok {
			t.Fatalf("SetStat(%q) is not %v", path, ok)
		}
		if ok {
			e.Stat = st
			m.entries[path] = e
		}

	case 4:
		mode := uint16(r.IntN(0o10000))
		must(t, x.SetDir(path, object.Entry{Mode: mode}))
		m.setDir(path, mode)

	case 5, 6:
		x.Remove(path)
		m.remove(path)

	case 7:
		to := randomPath(r)
		if x.Move(path, to) == nil && path != to {
			m.move(path, to)
		}

	case 10:
		attrs := map[string]string{"k": fmt.Sprint(r.IntN(3))}
		e, isEntry := m.entries[path]
		_, isDir := m.dirs[path]
		if err := x.SetAttrs(path, attrs); (err == nil) != (isEntry || isDir) {
			t.Fatalf("SetAttrs(%q): error %v", path, err)
		}
		if isEntry {
			e.Meta = "\xa1\x08\xa1\x41k\x41" + attrs["k"]
			m.entries[path] = e
		}

	case 8:
		randomNote(t, r, x, path)

	case 9:
		if r.IntN(3) == 0 {
			_, err := x.PreviewTree(context.Background(), store)
			must(t, err)
		} else if len(x.Conflicts()) == 0 {
			_, err := x.WriteTree(context.Background(), store)
			must(t, err)
		}
	}
}

func randomNote(t *testing.T, r *rand.Rand, x *Index, path string) {
	switch r.IntN(6) {
	case 0:
		must(t, x.SetConflict(path, randomSide(r), randomSide(r), randomSide(r)))
	case 1:
		must(t, x.SetSkipped(path, fmt.Sprint("reason ", r.IntN(3))))
	case 2, 3:
		x.ClearConflict(path)
	default:
		x.ClearSkipped(path)
	}
}

func randomSide(r *rand.Rand) *object.Entry {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return &object.Entry{Type: object.TypeDir, Mode: 0o755, Size: 7, Files: r.Uint64(), Content: object.Key{Kind: object.KindTree, ID: object.Sum(nil)}}
	}
	e := randomEntry(r)
	o := e.Object()
	return &o
}

func randomPath(r *rand.Rand) string {
	names := make([]string, 1+r.IntN(4))
	for i := range names {
		names[i] = string("abc-\xff"[r.IntN(5)])
	}
	return strings.Join(names, "/")
}
