package object_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// nameVector is a name, and whether it is valid in a directory.
type nameVector struct {
	Name string `json:"name"` // "hex:" and digits if it is not UTF-8
	Good bool   `json:"good"`
}

func TestNameVectors(t *testing.T) {
	var vectors []nameVector
	for _, name := range goodNames {
		vectors = append(vectors, nameVector{bytesView(name), true})
	}
	for _, name := range badNames {
		vectors = append(vectors, nameVector{bytesView(name), false})
	}
	var got []nameVector
	if err := json.Unmarshal(objecttest.CheckVectors(t, filepath.Join(vectorDir, "names.json"), vectors, *update), &got); err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		if good := object.CheckName(bytesOf(t, v.Name)) == nil; good != v.Good {
			t.Errorf("%q: good = %t, want %t", v.Name, good, v.Good)
		}
	}
}

// listVector is a chunked list. Item i of a tree, from 0, is an empty file named by i with
// six digits. Item i of a manifest is a chunk of i+1 bytes whose ID is the SHA-256 of i in
// decimal.
type listVector struct {
	Kind  string `json:"kind"`
	Items int    `json:"items"`
	Root  string `json:"root"`
	Nodes int    `json:"nodes"`
}

func TestListVectors(t *testing.T) {
	var vectors []listVector
	for _, n := range []int{0, 1, 2, 16, 17, 100, 1000, 5000, 50_000} {
		store := newCounter()
		w := object.NewTreeWriter(store)
		for i := range n {
			if err := w.Add(t.Context(), object.Entry{Name: fmt.Sprintf("%06d", i), Type: object.TypeFile}); err != nil {
				t.Fatal(err)
			}
		}
		root, err := w.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, listVector{"tree", n, root.String(), store.nodes})
	}

	for _, n := range []int{2, 16, 17, 100, 1000, 5000, 50_000} {
		store := newCounter()
		w := object.NewManifestWriter(store)
		for i := range n {
			if err := w.Add(t.Context(), object.ChunkRef{ID: sum(fmt.Sprint(i)), Size: uint32(i + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		key, size, err := w.Finish(t.Context())
		if err != nil || key.Kind != object.KindManifest || size != uint64(n)*uint64(n+1)/2 {
			t.Fatalf("manifest of %d chunks: %v, %d bytes, %v", n, key, size, err)
		}
		vectors = append(vectors, listVector{"manifest", n, key.ID.String(), store.nodes})
	}

	objecttest.CheckVectors(t, filepath.Join(vectorDir, "lists.json"), vectors, *update)
}

// TestManifestOfFewChunks checks that a file without chunks or of one chunk has no manifest.
func TestManifestOfFewChunks(t *testing.T) {
	store := objecttest.NewFaulty(objecttest.NewMemory())
	w := object.NewManifestWriter(store)
	if key, size, err := w.Finish(t.Context()); !key.IsZero() || size != 0 || err != nil {
		t.Errorf("no chunks: %v, %d, %v; want the zero key and 0", key, size, err)
	}
	w = object.NewManifestWriter(store)
	if err := w.Add(t.Context(), object.ChunkRef{ID: sum("a"), Size: 7}); err != nil {
		t.Fatal(err)
	}
	if key, size, err := w.Finish(t.Context()); key != chunkKey("a") || size != 7 || err != nil {
		t.Errorf("one chunk: %v, %d, %v; want the chunk and 7", key, size, err)
	}
	if n := store.Calls(objecttest.Put); n != 0 {
		t.Errorf("%d nodes were written, want none", n)
	}
}
