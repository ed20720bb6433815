package object_test

import (
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// TestAddNode checks that a list that reuses nodes of another list equals the list that is
// written entry by entry.
func TestAddNode(t *testing.T) {
	store := objecttest.NewMemory()
	entries := files(20_000)
	root := writeTree(t, store, entries)
	node, err := object.ReadTree(t.Context(), store, root)
	if err != nil {
		t.Fatal(err)
	}
	if node.Level == 0 {
		t.Fatal("the list has one node only")
	}

	at, reused := 0, 0
	w := object.NewTreeWriter(store)
	for i, child := range node.Children {
		end := at
		for entries[end].Name != child.Last {
			end++
		}
		ok := false
		if i%3 > 0 && i < len(node.Children)-1 {
			if ok, err = w.AddNode(t.Context(), node.Level, child); err != nil {
				t.Fatal(err)
			}
		}

		if ok {
			reused++
		}

		for _, e := range entries[at : end+1] {
			if ok {
				break
			}
			if err := w.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}

		at = end + 1
	}

	got, err := w.Finish(t.Context())
	if err != nil || got != root {
		t.Errorf("root %s, %v; want %s", got, err, root)
	}
	if want := len(node.Children) / 2; reused < want {
		t.Errorf("%d nodes were reused, want at least %d", reused, want)
	}
}

func TestAddNodeRefuses(t *testing.T) {
	store := objecttest.NewMemory()
	node, err := object.ReadTree(t.Context(), store, writeTree(t, store, files(20_000)))
	if err != nil {
		t.Fatal(err)
	}
	child := node.Children[0]

	w := object.NewTreeWriter(store)
	if err := w.Add(t.Context(), file("a", "a")); err != nil {
		t.Fatal(err)
	}
	if ok, err := w.AddNode(t.Context(), node.Level, child); ok || err != nil {
		t.Errorf("AddNode within a node: %t, %v; want false", ok, err)
	}

	for _, level := range []uint8{0, object.MaxLevel} {
		if ok, err := object.NewTreeWriter(store).AddNode(t.Context(), level, child); ok || err != nil {
			t.Errorf("AddNode at level %d: %t, %v; want false", level, ok, err)
		}
	}

	w = object.NewTreeWriter(store)
	if ok, err := w.AddNode(t.Context(), node.Level, child); !ok || err != nil {
		t.Fatalf("AddNode: %t, %v; want true", ok, err)
	}
	if _, err := w.AddNode(t.Context(), node.Level, child); !errors.Is(err, object.ErrInvalid) {
		t.Errorf("second AddNode of a node: %v, want ErrInvalid", err)
	}
	if err := w.Add(t.Context(), file("a", "a")); !errors.Is(err, object.ErrInvalid) {
		t.Errorf("Add of an entry before the last node: %v, want ErrInvalid", err)
	}
}
