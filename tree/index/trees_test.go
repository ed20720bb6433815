package index

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// ReadTree keeps the stat data of equal entries, and does not read equal trees.
func TestReadTreeKeeps(t *testing.T) {
	x, memory := sample(t), objecttest.NewMemory()
	info, err := x.WriteTree(ctx, memory)
	must(t, err)
	want := image(t, x)
	y := roundTrip(t, x)
	set(t, y, "many/1/11/f", file(5000))
	set(t, y, "many/new/f", file(1))
	y.Remove("many/5")
	set(t, y, "empty", file(3))
	y.Remove("link")
	must(t, y.SetDir("many/2", object.Entry{Mode: 0o700}))
	must(t, y.SetConflict("many/1/11/f", nil, nil, nil))
	must(t, y.SetSkipped("x", "y"))
	store := &counting{ReadWriter: memory}
	must(t, y.ReadTree(ctx, store, info.ID))
	if gets := store.gets.Load(); gets > 20 {
		t.Errorf("read %d nodes, want at most 20", gets)
	}
	for path, e := range x.All() {
		got := y.Entry(path)
		if restored := path == "many/1/11/f" || path == "link" || tree.Below(path, "many/5"); !restored && got.Stat != e.Stat {
			t.Fatalf("ReadTree drops the stat data of %q", path)
		}
		y.SetStat(path, e.Stat)
	}
	if string(image(t, y)) != string(want) {
		t.Error("the index differs from the tree")
	}
	same(t, roundTrip(t, y), x)

	must(t, y.ReadTree(ctx, store, object.ID{}))
	if y.Len() != 0 || y.dirs != 1 {
		t.Error("after reading no tree, the index is not empty")
	}
}

func TestReadTreeRefuses(t *testing.T) {
	store := objecttest.NewMemory()
	id, data := object.EmptyTree()
	_, err := store.Put(ctx, object.KindTree, data)
	must(t, err)

	put := func(e object.Entry) object.ID {
		w := object.NewTreeWriter(store)
		must(t, w.Add(ctx, e))
		id, err := w.Finish(ctx)
		must(t, err)
		return id
	}

	dir := object.Entry{Name: "d", Type: object.TypeDir, Content: object.Key{Kind: object.KindTree, ID: id}}
	for range object.MaxDepth {
		dir.Content.ID = put(dir)
	}
	if _, err := FromTree(ctx, store, dir.Content.ID); err != nil {
		t.Errorf("at the depth limit: %v", err)
	}
	if _, err := FromTree(ctx, store, put(dir)); err == nil {
		t.Error("accepts a tree that is too deep")
	}

	timed := object.Entry{Name: "d", Type: object.TypeDir, MTime: object.Time{Sec: 1}, Content: object.Key{Kind: object.KindTree, ID: id}}
	if _, err := FromTree(ctx, store, put(timed)); err == nil {
		t.Error("accepts a directory's time, which it could not keep")
	}
	if _, err := FromTree(ctx, store, object.Sum([]byte("nothing"))); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("missing tree: error %v, want ErrNotFound", err)
	}
}

// ReadTree refuses a tree of few nodes that stands for 2^60 paths.
func TestReadTreeTooMany(t *testing.T) {
	store := objecttest.NewMemory()
	entry := object.Entry{Name: "0", Type: object.TypeFile}
	for range 60 {
		other := entry
		other.Name = "1"
		data, err := (&object.Tree{Entries: []object.Entry{entry, other}}).Encode()
		must(t, err)
		id, err := store.Put(ctx, object.KindTree, data)
		must(t, err)
		entry = object.Entry{Name: "0", Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: id}}
	}
	x := New()
	if err := x.ReadTree(ctx, store, entry.Content.ID); !errors.Is(err, tree.ErrTooMany) || x.dirs > 1<<18 {
		t.Errorf("error %v, want ErrTooMany; made %d directories", err, x.dirs)
	}
}
