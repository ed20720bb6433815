package index

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// KnownTree returns the same tree as loading the whole index, or none if there are conflicts.
func TestKnownTree(t *testing.T) {
	dir, store := t.TempDir(), objecttest.NewMemory()
	check := func(when string, known bool) {
		t.Helper()
		x, err := Load(dir)
		must(t, err)
		want, ok := x.Root().Tree()
		if ok != known {
			t.Fatalf("%s: the tree is known: %t, want %t", when, ok, known)
		}
		got, ok := KnownTree(dir)
		if ok && !known || known && len(x.Conflicts()) == 0 && (!ok || got != want.ID) {
			t.Errorf("%s: KnownTree = %s, %t, want %s, %t", when, got, ok, want.ID, known)
		}
		if ok && len(x.Conflicts()) > 0 {
			t.Errorf("%s: KnownTree returns a tree in spite of conflicts", when)
		}
	}
	update := func(edit func(*Index) error) {
		t.Helper()
		must(t, Update(ctx, dir, edit))
	}
	write := func(x *Index) error {
		_, err := x.WriteTree(ctx, store)
		return err
	}

	check("no files", false)
	update(func(x *Index) error {
		for i := range 20_000 { // enough for a base
			if err := x.Set(fmt.Sprintf("d%d/f%d", i%100, i), file(i)); err != nil {
				return err
			}
		}
		return nil
	})
	check("no tree", false)
	update(write)
	check("tree in the head", true)
	update(func(x *Index) error { x.fold = true; x.changed = true; return nil })
	check("tree in the base", true)
	update(func(x *Index) error { x.SetStat("d1/f1", file(7).Stat); return nil })
	check("a stat in the head", true)
	update(func(x *Index) error { return x.Set("d1/f1", file(8)) })
	check("an entry in the head", false)
	update(write)
	check("its tree in the head", true)
	update(func(x *Index) error {
		return x.SetConflict("d2/f2", nil, &object.Entry{Name: "f2", Type: object.TypeFile, Mode: 0o644}, nil)
	})
	check("a conflict", true)
}

// KnownTree returns nothing for damaged and truncated files.
func TestKnownTreeDamaged(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error {
		if err := x.Set("f", file(1)); err != nil {
			return err
		}
		_, err := x.WriteTree(ctx, objecttest.NewMemory())
		return err
	}))
	path := filepath.Join(dir, headName)
	whole, err := os.ReadFile(path)
	must(t, err)
	if _, ok := KnownTree(dir); !ok {
		t.Fatal("KnownTree returns nothing for an intact index")
	}
	for i := range len(whole) - 8 { // KnownTree does not read the end
		must(t, os.WriteFile(path, whole[:i], 0o666))
		if id, ok := KnownTree(dir); ok {
			t.Fatalf("cut after %d of %d bytes: KnownTree returns %s", i, len(whole), id)
		}
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 1
		must(t, os.WriteFile(path, flipped, 0o666))
		if id, ok := KnownTree(dir); ok {
			t.Fatalf("with byte %d changed: KnownTree returns %s", i, id)
		}
	}
}
