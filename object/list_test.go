package object_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// counter counts the nodes and bytes of new objects.
type counter struct {
	object.ReadWriter
	seen         map[object.ID]bool
	nodes, bytes int
}

func newCounter() *counter {
	return &counter{ReadWriter: objecttest.NewMemory(), seen: map[object.ID]bool{}}
}

func (c *counter) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id, err := c.ReadWriter.Put(ctx, kind, data)
	if err == nil && !c.seen[id] {
		c.seen[id] = true
		c.nodes++
		c.bytes += len(data)
	}
	return id, err
}

func equalEntries(a, b object.Entry) bool { return reflect.DeepEqual(a, b) }

func TestTreeSizes(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 127, 128, 1023, 1024, 1025, 5000, 30_000} {
		store := newCounter()
		want := files(n)
		root := writeTree(t, store, want)
		if got := readEntries(t, store, root); !slices.EqualFunc(want, got, equalEntries) {
			t.Fatalf("wrote %d entries, read %d others", n, len(got))
		}
		if n == 0 {
			if id, _ := object.EmptyTree(); root != id {
				t.Errorf("empty directory is %s, want EmptyTree %s", root, id)
			}
		}
		if again := writeTree(t, object.Discard, want); again != root {
			t.Errorf("second write of %d entries: root %s, want %s", n, again, root)
		}
		checkList(t, store, root)
	}
}

// checkList checks the nodes of a directory's list. Each is full or ends at a boundary,
// except for the last of its level. None continues after a boundary.
func checkList(t *testing.T, r object.Reader, root object.ID) {
	t.Helper()
	for row := []object.ID{root}; len(row) > 0; {
		var below []object.ID
		for i, id := range row {
			data, err := r.Get(t.Context(), object.Key{Kind: object.KindTree, ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if err := object.Check(object.KindTree, data); err != nil {
				t.Fatal(err)
			}

			tree, err := object.DecodeTree(data)
			if err != nil {
				t.Fatal(err)
			}
			count, last := len(tree.Entries), ""
			if count > 0 {
				last = tree.Entries[count-1].Name
			}

			for _, c := range tree.Children {
				below, count, last = append(below, c.ID), len(tree.Children), c.Last
			}
			boundary := object.Sum([]byte(string(rune(tree.Level)) + last))[0]%128 == 0
			full := count == object.MaxListItems || len(data) > object.MaxListSize-object.MaxEntrySize-100
			if i < len(row)-1 && !full && (count < object.MinListItems || !boundary) {
				t.Fatalf("node %d of %d at level %d ends early, after %d items in %d bytes", i, len(row), tree.Level, count, len(data))
			}
			if id == root && len(tree.Children) == 1 {
				t.Fatal("the root has one child")
			}
		}

		row = below
	}
}

func TestTreeSmallChange(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and the race detector finds nothing in one goroutine")
	}
	const n = 100_000
	ctx := t.Context()
	store := newCounter()
	entries := files(n)
	writeTree(t, store, entries)

	total := store.nodes
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		i := rnd.IntN(n)
		changed := slices.Clone(entries)
		changed[i].Content.ID = object.Sum(fmt.Append(nil, "changed", i))

		for what, list := range map[string][]object.Entry{
			"change": changed,
			"insert": slices.Insert(slices.Clone(entries), i+1, file(entries[i].Name+"-new", "new")),
			"delete": slices.Delete(slices.Clone(entries), i, i+1),
		} {
			store.nodes, store.bytes = 0, 0
			root := writeTree(t, store, list)
			if store.nodes > 8 || store.bytes > 64<<10 {
				t.Errorf("%s at %d of %d entries in %d nodes: wrote %d nodes, %d bytes; want at most 8, 64 KiB", what, i, n, total, store.nodes, store.bytes)
			}
			e, err := object.Lookup(ctx, store, root, list[i].Name)
			if err != nil || e.Content != list[i].Content {
				t.Errorf("%s: Lookup = %v, %v; want content %v", what, e, err, list[i].Content)
			}
		}
	}
}

func TestManifestSmallChange(t *testing.T) {
	const n = 100_000
	refs := make([]object.ChunkRef, n)
	for i := range refs {
		refs[i] = object.ChunkRef{ID: object.Sum(fmt.Append(nil, i)), Size: uint32(i + 1)}
	}
	store := newCounter()
	write := func(refs []object.ChunkRef) {
		w := object.NewManifestWriter(store)
		for _, ref := range refs {
			if err := w.Add(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := w.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write(refs)
	for _, i := range []int{0, 1234, n / 2, n - 1} {
		store.nodes, store.bytes = 0, 0
		write(slices.Insert(slices.Clone(refs), i, object.ChunkRef{ID: object.Sum([]byte("new")), Size: 7}))
		if store.nodes > 10 || store.bytes > 64<<10 {
			t.Errorf("insertion at %d: wrote %d nodes, %d bytes; want at most 10, 64 KiB", i, store.nodes, store.bytes)
		}
	}
}

// TestGroundNames checks the sizes of nodes with names that are chosen to be always or never
// a boundary.
func TestGroundNames(t *testing.T) {
	for _, always := range []bool{false, true} {
		var entries []object.Entry
		for i := 0; len(entries) < 5000; i++ {
			name := fmt.Sprintf("%08d", i)
			if (object.Sum([]byte("\x00" + name))[0]%128 == 0) == always {
				entries = append(entries, file(name, name))
			}
		}
		store := newCounter()
		root := writeTree(t, store, entries)
		checkList(t, store, root)
		leaf := 16
		if !always {
			leaf = 1024
		}
		if leaves := (5000 + leaf - 1) / leaf; store.nodes < leaves || store.nodes > leaves+leaves/8+2 {
			t.Errorf("always a boundary = %t: %d nodes, want about %d", always, store.nodes, leaves)
		}
	}
}

// TestLargeEntries checks that entries make a valid list even if a node has room for only a
// few.
func TestLargeEntries(t *testing.T) {
	entries := files(300)
	for i := range entries {
		entries[i].Meta = &object.Metadata{Xattrs: map[string][]byte{"user.x": make([]byte, 60_000+i)}}
	}
	store := newCounter()
	root := writeTree(t, store, entries)
	if got := readEntries(t, store, root); !slices.EqualFunc(entries, got, equalEntries) {
		t.Fatalf("wrote %d entries, read %d others", len(entries), len(got))
	}
	checkList(t, store, root)
}

func TestEntriesFromAndLookup(t *testing.T) {
	ctx := t.Context()
	store := objecttest.NewMemory()
	entries := files(10_000)
	root := writeTree(t, store, entries)

	for _, i := range []int{0, 1, 17, 999, 5000, 9999} {
		for from, want := range map[string]int{entries[i].Name: i, entries[i].Name + "\x00": i + 1, strings.TrimSuffix(entries[i].Name, "t"): i} {
			got := len(entries)
			for e, err := range object.EntriesFrom(ctx, store, root, from) {
				if err != nil {
					t.Fatal(err)
				}
				got = slices.IndexFunc(entries, func(x object.Entry) bool { return x.Name == e.Name })
				break
			}
			if got != want {
				t.Errorf("EntriesFrom %q begins at %d, want %d", from, got, want)
			}
		}

		if e, err := object.Lookup(ctx, store, root, entries[i].Name); err != nil || e.Name != entries[i].Name {
			t.Errorf("Lookup of %q = %v, %v", entries[i].Name, e, err)
		}
		if _, err := object.Lookup(ctx, store, root, entries[i].Name+"x"); !errors.Is(err, object.ErrNoEntry) {
			t.Errorf("Lookup of a missing name: %v, want ErrNoEntry", err)
		}
	}

	n := 0
	for _, err := range object.EntriesFrom(ctx, store, root, entries[8000].Name) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2000 {
		t.Errorf("EntriesFrom yields %d entries, want 2000", n)
	}
	if _, err := object.Lookup(ctx, store, root, "zzz"); !errors.Is(err, object.ErrNoEntry) {
		t.Errorf("Lookup of a name after all others: %v, want ErrNoEntry", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	tests := []struct {
		name    string
		entries []object.Entry
		want    object.Reason
	}{
		{"same name", []object.Entry{file("a", ""), file("a", "")}, object.ReasonOrder},
		{"descending", []object.Entry{file("b", ""), file("a", "")}, object.ReasonOrder},
		{"descending in another node", append(files(1024), file("a", "")), object.ReasonOrder},
		{"name", []object.Entry{file(".KIST", "")}, object.ReasonName},
		{"type", []object.Entry{{Name: "a"}}, object.ReasonEntry},
	}
	for _, test := range tests {
		w := object.NewTreeWriter(object.Discard)
		var err error
		for _, e := range test.entries {
			if err = w.Add(t.Context(), e); err != nil {
				break
			}
		}
		var invalid *object.InvalidError
		if !errors.As(err, &invalid) || invalid.Reason != test.want || !errors.Is(err, object.ErrInvalid) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestWriterPassesErrorsOn(t *testing.T) {
	store := objecttest.NewFaulty(objecttest.NewMemory())
	store.Fail(objecttest.Put, 3)
	w := object.NewTreeWriter(store)
	var err error
	for _, e := range files(5000) {
		if err = w.Add(t.Context(), e); err != nil {
			break
		}
	}
	if !errors.Is(err, objecttest.ErrFault) {
		t.Errorf("error %v, want the store's", err)
	}
}
