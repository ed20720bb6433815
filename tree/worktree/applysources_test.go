package worktree

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// movedOps returns operations that remove old/a and old/b and the folder old, and make the files new/a and new/b with the content of a.
func movedOps(f *fixture, a string) []Op {
	f.write("old/a", a)
	f.write("old/b", "b")
	e := f.file(a)
	return []Op{
		{Path: "old"}, {Path: "old/a", Old: &index.Entry{}}, {Path: "old/b", Old: &index.Entry{}},
		{Path: "new", New: dir(0o755)}, {Path: "new/a", New: e}, {Path: "new/b", New: e},
	}
}

// TestApplySources checks that a source is there until the files are written that need it, and no longer.
func TestApplySources(t *testing.T) {
	a := random(1, 100_000)
	each(t, func(t *testing.T, f *fixture) {
		var looked atomic.Int64
		store := reads{f.store, func() {
			looked.Add(1)
			if _, err := f.w.Lstat("old/a"); err != nil {
				t.Errorf("the source: %v", err)
			}
			if _, err := f.w.Lstat("old/b"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is no source is there: %v", err)
			}
		}}
		_, err := f.w.Apply(ctx, store, movedOps(f, a), ApplyOptions{Sources: map[string][]string{"old/a": {"new/a", "new/b", "none"}, "none": {"new/a"}}})
		if f.check(err); looked.Load() == 0 {
			t.Error("Apply read nothing")
		}
		if _, err := f.w.Lstat("old"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder of the source: %v", err)
		}
	})
}

// TestApplySourceChanged changes a source while it is needed. It stays.
func TestApplySourceChanged(t *testing.T) {
	f := newReal(t)
	ops := movedOps(f, random(1, 100_000))
	_, err := f.w.Apply(ctx, reads{f.store, func() { f.write("old/a", "an edit") }}, ops, ApplyOptions{Sources: map[string][]string{"old/a": {"new/a"}}})
	if !errors.Is(err, ErrChanged) {
		t.Errorf("error %v, want ErrChanged", err)
	}
	if info, err := f.w.Lstat("old/a"); err != nil || info.Stat.Size != 7 {
		t.Errorf("the changed source: %+v, %v", info, err)
	}
}

func TestRemovableLate(t *testing.T) {
	file := &object.Entry{Type: object.TypeFile}
	ops := []Op{{Path: "a/b", New: file}, {Path: "c", New: dir(0o755)}, {Path: "D/e", New: file}}
	paths := []string{"a", "a/x", "a/b", "a/b/c", "A/B/c/d", "c", "c/x", "C", "d/E", "d/e/f", "z"}
	got := slices.Sorted(maps.Keys(RemovableLate(ops, paths)))
	if want := []string{"a/x", "c/x", "z"}; !slices.Equal(got, want) {
		t.Errorf("removable late: %q, want %q", got, want)
	}
}
