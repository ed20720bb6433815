package index

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
)

// lenient continues to read if an object is missing.
type lenient struct {
	object.ReadWriter
	passed []string
}

func (l *lenient) PassOver(path string, _ object.Key, err error) bool {
	l.passed = append(l.passed, path)
	return errors.Is(err, object.ErrNotFound)
}

// A directory whose tree is missing keeps its recorded tree until an entry is set in it.
func TestLostDir(t *testing.T) {
	x, store := sample(t), objecttest.NewMemory()
	whole, err := x.WriteTree(ctx, store)
	must(t, err)
	many, _ := x.Dir("many").Tree()
	store.Delete(many.Key())

	if err := New().ReadTree(ctx, store, whole.ID); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("a strict reader: error %v, want ErrNotFound", err)
	}
	l := &lenient{ReadWriter: store}
	for _, y := range []*Index{New(), roundTrip(t, x)} {
		if y.Len() > 0 {
			set(t, y, "many/new", file(1)) // forgets the tree of many
		}
		must(t, y.ReadTree(ctx, l, whole.ID))
		y = roundTrip(t, y)
		d := y.Dir("many")
		if d == nil || !d.Lost() || d.Len()+len(d.Subdirs()) > 0 || y.Len() == 0 {
			t.Fatalf("many is %v, want lost; the index has %d entries, want some", d, y.Len())
		}
		must(t, y.Set("a new file", file(2)))
		y.Remove("a new file")
		info, err := y.WriteTree(ctx, store)
		if err != nil || info != whole {
			t.Errorf("written as %v, want %v; %v", info, whole, err)
		}
		var lost []string
		for path := range y.LostDirs() {
			lost = append(lost, path)
		}
		if len(lost) != 1 || lost[0] != "many" {
			t.Errorf("lost directories are %q, want many", lost)
		}

		emptied := roundTrip(t, y)
		emptied.Remove("many")
		must(t, emptied.SetDir("many", object.Entry{Mode: 0o755}))
		emptied.CopyTrees(y)
		if emptied.Dir("many").Lost() {
			t.Error("CopyTrees makes an empty directory lost")
		}

		set(t, y, "many/b", file(1))
		info, err = y.WriteTree(ctx, store)
		must(t, err)
		known, err := FromTree(ctx, store, info.ID)
		must(t, err)
		if d := known.Dir("many"); d.Lost() || d.Len() != 1 || len(d.Subdirs()) > 0 {
			t.Errorf("after Set, many has %d entries, want 1", d.Len())
		}
	}
	if len(l.passed) != 2 || l.passed[0] != "many" {
		t.Errorf("passed over %q, want many twice", l.passed)
	}

	store.Delete(whole.Key())
	if err := New().ReadTree(ctx, l, whole.ID); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("without the root: error %v, want ErrNotFound", err)
	}
}

func TestSetLost(t *testing.T) {
	x, store := sample(t), objecttest.NewMemory()
	before, err := x.WriteTree(ctx, store)
	must(t, err)
	lost := tree.Info{ID: object.Sum([]byte("lost")), Files: 3, Bytes: 7}
	entry := object.Entry{Mode: 0o700, Content: lost.Key(), Files: lost.Files, Size: lost.Bytes}
	must(t, x.SetLost("many", entry))
	must(t, x.SetLost("new/many", entry))
	x = roundTrip(t, x)
	for _, path := range []string{"many", "new/many"} {
		if d := x.Dir(path); !d.Lost() || d.Mode() != 0o700 {
			t.Errorf("%s: %v", path, d)
		}
	}
	after, err := x.WriteTree(ctx, store)
	must(t, err)
	many, err := object.Lookup(ctx, store, after.ID, "many")
	if err != nil || many.Content != lost.Key() || many.Files != lost.Files || many.Size != lost.Bytes {
		t.Errorf("written as %v; %v", many, err)
	}
	if after == before {
		t.Error("SetLost does not change the root's tree")
	}
}
