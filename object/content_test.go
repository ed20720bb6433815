package object_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

func TestContentReader(t *testing.T) {
	store := objecttest.NewMemory()
	small := object.Entry{Name: "small", Type: object.TypeFile, Size: 5, Inline: []byte("hello")}
	for _, n := range []int{-1, 0, 1, 2, 100, 3000} {
		e, content := small, []byte("hello")
		if n >= 0 {
			e, content = bigFile(t, store, n, 500)
		}
		t.Run(fmt.Sprint(n, " chunks"), func(t *testing.T) {
			r := object.NewContentReader(t.Context(), store, e)
			if r.Size() != int64(len(content)) {
				t.Errorf("size %d, want %d", r.Size(), len(content))
			}
			if err := iotest.TestReader(r, content); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestContentReaderConcurrent(t *testing.T) {
	store := objecttest.NewMemory()
	e, content := bigFile(t, store, 300, 500)
	r := object.NewContentReader(t.Context(), store, e)
	errs := make(chan error)
	for i := range 8 {
		go func() {
			buf := make([]byte, 1000)
			for off := i * 100; off+len(buf) < len(content); off += 3000 {
				if _, err := r.ReadAt(buf, int64(off)); err != nil {
					errs <- err
					return
				}
				if !bytes.Equal(buf, content[off:off+len(buf)]) {
					errs <- fmt.Errorf("wrong bytes at %d", off)
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestContentReaderErrors(t *testing.T) {
	store := objecttest.NewMemory()
	e, _ := bigFile(t, store, 100, 500)
	r := object.NewContentReader(t.Context(), store, e)
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("Seek before the start: no error")
	}
	if _, err := r.Seek(0, 7); err == nil {
		t.Error("Seek with an unknown whence: no error")
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("ReadAt before the start: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := io.ReadAll(object.NewContentReader(ctx, store, e)); !errors.Is(err, context.Canceled) {
		t.Errorf("read with a cancelled context: %v", err)
	}
	e.Content = object.Key{Kind: object.KindChunk, ID: object.Sum([]byte("absent"))}
	e.Size = 100
	if _, err := io.ReadAll(object.NewContentReader(t.Context(), store, e)); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("read of a missing chunk: %v, want ErrNotFound", err)
	}
}

func TestChunks(t *testing.T) {
	store := objecttest.NewMemory()
	e, content := bigFile(t, store, 5000, 50)
	var all []object.ChunkAt
	end := uint64(0)

	for c, err := range object.Chunks(t.Context(), store, e.Content, e.Size, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Offset != end {
			t.Fatalf("chunk at %d, want %d", c.Offset, end)
		}
		if object.Sum(content[c.Offset:c.Offset+uint64(c.Size)]) != c.ID {
			t.Fatalf("chunk at %d is %s, want that of the content", c.Offset, c.ID)
		}
		end += uint64(c.Size)
		all = append(all, c)
	}
	if end != e.Size || len(all) != 5000 {
		t.Errorf("%d chunks with %d bytes, want 5000 with %d", len(all), end, e.Size)
	}

	for _, i := range []int{0, 1, 777, 4998, 4999} {
		for _, off := range []uint64{all[i].Offset, all[i].Offset + uint64(all[i].Size) - 1} {
			for c, err := range object.Chunks(t.Context(), store, e.Content, e.Size, off) {
				if err != nil || c != all[i] {
					t.Errorf("chunk at %d: %v, %v; want %v", off, c, err, all[i])
				}
				break
			}
		}
	}

	for range object.Chunks(t.Context(), store, e.Content, e.Size, e.Size) {
		t.Error("Chunks from the end of the file yields a chunk")
	}
	for range object.Chunks(t.Context(), store, object.Key{}, 5, 0) {
		t.Error("Chunks of an inline file yields a chunk")
	}
}

// TestBadLists checks that valid nodes that do not fit together are rejected.
func TestBadLists(t *testing.T) {
	store := objecttest.NewMemory()
	put := func(kind object.Kind, node interface{ Encode() ([]byte, error) }) object.ID {
		id, err := store.Put(t.Context(), kind, mustEncode(t, node))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	tree := func(level uint8, children ...object.TreeChild) object.ID {
		return put(object.KindTree, &object.Tree{Level: level, Children: children})
	}
	leaf := func(names ...string) object.ID {
		node := &object.Tree{}
		for _, name := range names {
			node.Entries = append(node.Entries, file(name, name))
		}
		return put(object.KindTree, node)
	}
	ab, cd := leaf("a", "b"), leaf("c", "d")
	child := func(last string, id object.ID) object.TreeChild { return object.TreeChild{Last: last, ID: id} }
	good := tree(1, child("b", ab), child("d", cd))
	for _, test := range []struct {
		name string
		root object.ID
		want object.Reason
	}{
		{"last name", tree(1, child("b", ab), child("e", cd)), object.ReasonChild},
		{"order", tree(1, child("d", cd), child("e", leaf("b", "e"))), object.ReasonChild},
		{"level", tree(2, child("b", ab), child("d", cd)), object.ReasonChild},
		{"level below", tree(1, child("d", good), child("e", leaf("e"))), object.ReasonChild},
		{"empty leaf", tree(1, child("b", ab), child("c", leaf())), object.ReasonChild},
		{"one child", tree(1, child("b", ab)), object.ReasonRoot},
	} {
		var got error
		for _, err := range object.Entries(t.Context(), store, test.root) {
			got = err
		}
		t.Run(test.name, func(t *testing.T) { wantReason(t, got, test.want) })
	}
	if _, err := object.Lookup(t.Context(), store, tree(1, child("b", ab), child("e", cd)), "c"); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("Lookup in a bad list: %v, want ErrCorrupt", err)
	}
	if got := readEntries(t, store, good); len(got) != 4 {
		t.Errorf("good list has %v, want 4 entries", got)
	}

	manifest := func(level uint8, children ...object.ManifestChild) object.ID {
		return put(object.KindManifest, &object.Manifest{Level: level, Children: children})
	}
	part := func(end uint64, id object.ID) object.ManifestChild { return object.ManifestChild{ID: id, End: end} }
	chunks := func(sizes ...uint32) object.ID {
		node := &object.Manifest{}
		for _, size := range sizes {
			node.Chunks = append(node.Chunks, object.ChunkRef{ID: object.Sum(fmt.Append(nil, size)), Size: size})
		}
		return put(object.KindManifest, node)
	}
	c12, c34 := chunks(10, 20), chunks(30, 40)
	fine := manifest(1, part(30, c12), part(100, c34))
	for _, test := range []struct {
		name string
		root object.ID
		size uint64
		want object.Reason
	}{
		{"size", fine, 101, object.ReasonSize},
		{"huge size", fine, math.MaxInt64, object.ReasonSize},
		{"child's size", manifest(1, part(31, c12), part(100, c34)), 100, object.ReasonSize},
		{"level", manifest(2, part(30, c12), part(100, c34)), 100, object.ReasonChild},
		{"one chunk", chunks(100), 100, object.ReasonRoot},
		{"one child", manifest(1, part(30, c12)), 30, object.ReasonRoot},
	} {
		key := object.Key{Kind: object.KindManifest, ID: test.root}
		var got error
		for _, err := range object.Chunks(t.Context(), store, key, test.size, 0) {
			got = err
		}
		t.Run(test.name, func(t *testing.T) { wantReason(t, got, test.want) })
	}
	for _, err := range object.Chunks(t.Context(), store, object.Key{}, 33, 0) {
		wantReason(t, err, object.ReasonSize)
	}
	_, err := io.ReadAll(object.NewContentReader(t.Context(), store, object.Entry{Size: 5, Inline: []byte("abc")}))
	wantReason(t, err, object.ReasonSize)
	chunk, err := store.Put(t.Context(), object.KindChunk, make([]byte, 50))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(object.NewContentReader(t.Context(), store, object.Entry{Size: 51, Content: object.Key{Kind: object.KindChunk, ID: chunk}}))
	wantReason(t, err, object.ReasonSize)
}
