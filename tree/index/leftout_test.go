package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// folderEntry returns the entry of a folder with a made-up tree.
func folderEntry(n int) object.Entry {
	return object.Entry{
		Type: object.TypeDir, Mode: 0o755, Size: uint64(n), Files: 1,
		Content: object.Key{Kind: object.KindTree, ID: object.Sum(fmt.Append(nil, "tree", n))},
	}
}

// smallSparse is small with directories that are left out: in the base and the head.
func smallSparse(t testing.TB) (dir string, x *Index) {
	dir = t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error {
		for i, path := range []string{"a/b/f", "a/g", "c/f"} {
			must(t, x.Set(path, file(i)))
		}
		must(t, SetLeftOut(x, "a/out", folderEntry(1)))
		must(t, SetLeftOut(x, "d", folderEntry(2)))
		must(t, SetLeftOut(x, "e", folderEntry(3)))
		x.fold = true
		_, err := x.WriteTree(ctx, objecttest.NewMemory())
		return err
	}))
	must(t, Update(ctx, dir, func(got *Index) error {
		x = got
		must(t, SetLeftOut(x, "a/out", folderEntry(4))) // another tree
		must(t, SetLeftOut(x, "c", folderEntry(5)))
		x.Remove("d")
		x.Remove("e") // in the base; the head has a full folder
		return x.Set("e/f", file(1))
	}))
	return dir, x
}

func TestGoldenSparse(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error {
		must(t, x.Set("a/f", file(1)))
		must(t, SetLeftOut(x, "a/out", folderEntry(1)))
		must(t, SetLeftOut(x, "d", folderEntry(2)))
		x.fold = true
		return nil
	}))
	must(t, Update(ctx, dir, func(x *Index) error {
		must(t, SetLeftOut(x, "a/out", folderEntry(4)))
		return SetLeftOut(x, "c", folderEntry(5))
	}))
	must(t, os.Remove(filepath.Join(dir, lockName)))
	compareGolden(t, dir, "testdata/v2")
	x, err := Load(dir)
	must(t, err)
	y, err := Load("testdata/v2")
	must(t, err)
	same(t, y, x)
}

// A program of before refuses an index with folders that are left out, and no other.
func TestVersionOfFiles(t *testing.T) {
	dir := t.TempDir()
	versions := func() (all []byte) {
		files, err := filepath.Glob(filepath.Join(dir, "index*"))
		must(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			must(t, err)
			if len(data) > 0 { // not the lock
				all = append(all, data[9])
			}
		}
		return all
	}
	step := func(want string, edit func(x *Index) error) {
		t.Helper()
		must(t, Update(ctx, dir, edit))
		if got := fmt.Sprint(versions()); got != want {
			t.Errorf("versions are %s, want %s", got, want)
		}
	}
	step("[1 1]", func(x *Index) error { x.fold = true; return x.Set("a/f", file(1)) })
	step("[2 1]", func(x *Index) error { return SetLeftOut(x, "b", folderEntry(1)) })
	step("[2 2]", func(x *Index) error { x.fold = true; return x.Set("a/g", file(1)) })
	step("[1 1]", func(x *Index) error { x.Remove("b"); return nil })
}

func TestLeftOut(t *testing.T) {
	dir, x := smallSparse(t)
	y, err := Load(dir)
	must(t, err)
	same(t, y, x)
	var got []string
	for path, d := range LeftOutDirs(y) {
		if got = append(got, path); !d.LeftOut() || d.Lost() || d.Len()+len(d.Subdirs()) > 0 {
			t.Errorf("%q is no folder that is left out", path)
		}
	}
	if fmt.Sprint(got) != "[a/out c]" {
		t.Errorf("left out are %q, want a/out and c", got)
	}
	for path, want := range map[string]string{"": "", "a": "", "a/g": "", "a/out": "a/out", "a/out/x/y": "a/out", "c/f": "c", "nothing/x": ""} {
		at := ""
		if d := LeftOutAt(y, path); d != nil {
			at = d.Path()
		}
		if at != want {
			t.Errorf("LeftOutAt(%q) is %q, want %q", path, at, want)
		}
	}
}

// No edit gets into a folder that is left out: the rest of it would be lost.
func TestLeftOutRefusesEdits(t *testing.T) {
	for name, edit := range map[string]func(x *Index) error{
		"Set":         func(x *Index) error { return x.Set("c/f", file(1)) },
		"Set deeper":  func(x *Index) error { return x.Set("c/d/f", file(1)) },
		"SetDir":      func(x *Index) error { return x.SetDir("c/d", object.Entry{Mode: 0o755}) },
		"SetLost":     func(x *Index) error { return x.SetLost("c/d", folderEntry(1)) },
		"SetLeftOut":  func(x *Index) error { return SetLeftOut(x, "c/d", folderEntry(1)) },
		"SetAttrs":    func(x *Index) error { return x.SetAttrs("c/f", map[string]string{"k": "v"}) },
		"SetConflict": func(x *Index) error { return x.SetConflict("c/f", nil, nil, nil) },
		"SetIntent":   func(x *Index) error { return SetIntent(x, "c/f") },
		"Move from":   func(x *Index) error { return x.Move("c/f", "z") },
		"Move to":     func(x *Index) error { return x.Move("a/g", "c/g") },
	} {
		_, x := smallSparse(t)
		before := image(t, x)
		err := edit(x)
		var leftOut *LeftOutError
		if !errors.As(err, &leftOut) || !errors.Is(err, ErrLeftOut) || leftOut.Dir != "c" {
			t.Errorf("%s: error %v, want a LeftOutError for c", name, err)
		}
		if !bytes.Equal(image(t, x), before) {
			t.Errorf("%s changes the index", name)
		}
	}
}

// The folder itself can be changed, moved, replaced and removed.
func TestLeftOutFolder(t *testing.T) {
	for name, edit := range map[string]func(x *Index) error{
		"[a/out b]": func(x *Index) error { return x.Move("c", "b") },
		"[c z/out]": func(x *Index) error { return x.Move("a", "z") },
		"[a/out]":   func(x *Index) error { return x.Set("c", file(1)) },
		"[c]":       func(x *Index) error { x.Remove("a"); return nil },
		"[a/out c]": func(x *Index) error { return x.SetDir("c", object.Entry{Mode: 0o700}) },
		"[a c]":     func(x *Index) error { return SetLeftOut(x, "a", folderEntry(9)) },
		"[c a/out]": func(x *Index) error { return x.SetLost("a/out", folderEntry(9)) },
		"[]":        func(x *Index) error { x.Remove(""); return nil },
	} {
		_, x := smallSparse(t)
		must(t, edit(x))
		x.fold = true // roundTrip writes into another folder
		x = roundTrip(t, x)
		check(t, x)
		got := []string{}
		for path := range LeftOutDirs(x) {
			got = append(got, path)
		}
		for path := range x.LostDirs() {
			got = append(got, path)
		}
		if fmt.Sprint(got) != name {
			t.Errorf("left out are %q, want %s", got, name)
		}
	}
}

// TestHostileSparse decodes folders that are left out in other forms than writers make.
func TestHostileSparse(t *testing.T) {
	for name, change := range map[string]func(x *Index){
		"without a tree":      func(x *Index) { x.Dir("d").tree = tree.Info{} },
		"with an entry":       func(x *Index) { e := file(1); e.Name = "x"; x.Dir("d").entries.put(e); x.entries++ },
		"with a directory":    func(x *Index) { x.Dir("a").leftOut = true },
		"the root":            func(x *Index) { x.root.leftOut = true },
		"version without one": func(x *Index) { x.Remove("d"); x.leftOut = 1 },
		"one without version": func(x *Index) { x.leftOut = 0 },
	} {
		x := New()
		set(t, x, "a/f", file(1))
		must(t, SetLeftOut(x, "d", folderEntry(1)))
		change(x)
		var b bytes.Buffer
		size, _, err := x.writeBase(&b)
		must(t, err)
		if _, _, err := readBase(&b, size); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}

	for name, change := range map[string]func(x *Index){
		"as in the base": func(x *Index) {},
		"opened":         func(x *Index) { x.Dir("d").leftOut = false },
		"closed":         func(x *Index) { x.Dir("e").leftOut = true },
	} {
		dir := t.TempDir()
		x := New()
		set(t, x, "a", file(1))
		must(t, SetLeftOut(x, "d", folderEntry(1)))
		must(t, SetLeftOut(x, "f", folderEntry(1)))
		must(t, x.SetDir("e", object.Entry{Mode: 0o755}))
		x.Dir("e").tree = tree.Info{ID: emptyTree}
		must(t, x.saveBase(dir))
		must(t, x.SetDir("d", object.Entry{Mode: 0o700}))
		must(t, x.SetDir("e", object.Entry{Mode: 0o700}))
		change(x)
		base := func(ref baseRef) (*Index, error) { return loadBase(filepath.Join(dir, x.file.base.fileName()), ref) }
		if _, err := readHead(encodeHead(t, x), base); (err == nil) != (name == "as in the base") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A sparse index and a full one write the same trees after the same edits, and the sparse one
// has the same content once everything is open.
func TestRandomSparse(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		store := objecttest.NewMemory()
		dirs := []string{"a", "a/b", "a/b/c", "a/d", "e", "e/f", "g"}
		full := New()
		for range 30 {
			must(t, full.Set(dirs[r.IntN(len(dirs))]+fmt.Sprint("/f", r.IntN(5)), randomEntry(r)))
		}
		chosen := []string{dirs[r.IntN(len(dirs))], dirs[r.IntN(len(dirs))]}
		cone, err := tree.NewCone(chosen)
		must(t, err)
		sparse := New()
		for range 5 {
			whole, err := full.WriteTree(ctx, store)
			must(t, err)
			must(t, ReadTreeIn(ctx, sparse, store, whole.ID, cone))
			sparse = roundTrip(t, sparse)
			check(t, sparse)
			for path, d := range sparse.Dirs() {
				if d.LeftOut() == cone.Has(path) {
					t.Fatalf("seed %d, cone of %q: %q left out is %v", seed, chosen, path, d.LeftOut())
				}
			}
			for range 8 {
				path := dirs[r.IntN(len(dirs))] + fmt.Sprint("/f", r.IntN(5))
				if LeftOutAt(sparse, path) != nil {
					continue
				}
				if e := randomEntry(r); r.IntN(3) > 0 {
					must(t, full.Set(path, e))
					must(t, sparse.Set(path, e))
				} else {
					full.Remove(path)
					sparse.Remove(path)
				}
			}
			want, err := full.WriteTree(ctx, store)
			must(t, err)
			got, err := sparse.WriteTree(ctx, store)
			if err != nil || got != want {
				t.Fatalf("seed %d, cone of %q: written as %v, want %v; %v", seed, chosen, got, want, err)
			}
		}

		opened := roundTrip(t, sparse)
		for HasLeftOut(opened) {
			for path := range LeftOutDirs(opened) {
				must(t, OpenLeftOut(context.Background(), opened, store, path))
				check(t, opened)
				break
			}
		}
		want, err := full.WriteTree(ctx, store)
		must(t, err)
		if got, ok := opened.Root().Tree(); !ok || got != want {
			t.Fatalf("seed %d: opening changes the tree %v to %v", seed, want, got)
		}
		closed, err := FromTree(ctx, store, want.ID)
		must(t, err)
		for path, e := range closed.All() {
			if o := opened.Entry(path); o == nil || !o.SameContent(e) {
				t.Fatalf("seed %d: %q is %v, want %v", seed, path, o, e)
			}
		}
		if opened.Len() != closed.Len() {
			t.Fatalf("seed %d: %d entries after opening, want %d", seed, opened.Len(), closed.Len())
		}
	}
}
