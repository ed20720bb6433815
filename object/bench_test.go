package object_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// perItem reports the time for each of n items.
func perItem(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/item")
}

// BenchmarkSum hashes data of the sizes of chunks.
func BenchmarkSum(b *testing.B) {
	for _, n := range []int{2 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			data := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				object.Sum(data)
			}
		})
	}
}

func BenchmarkTreeEncode(b *testing.B) {
	tree := object.Tree{Entries: files(1000)}
	data, err := tree.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tree.Encode(); err != nil {
			b.Fatal(err)
		}
	}
	perItem(b, 1000)
}

func BenchmarkTreeDecode(b *testing.B) {
	tree := object.Tree{Entries: files(1000)}
	data, err := tree.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := object.DecodeTree(data); err != nil {
			b.Fatal(err)
		}
	}
	perItem(b, 1000)
}

func BenchmarkTreeLinks(b *testing.B) {
	tree := object.Tree{Entries: files(1000)}
	data, err := tree.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := object.Links(object.KindTree, data); err != nil {
			b.Fatal(err)
		}
	}
	perItem(b, 1000)
}

func BenchmarkTreeWriter(b *testing.B) {
	entries := files(200_000)
	b.ReportAllocs()
	for b.Loop() {
		w := object.NewTreeWriter(object.Discard)
		for _, e := range entries {
			if err := w.Add(b.Context(), e); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Finish(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	perItem(b, len(entries))
}

func BenchmarkEntries(b *testing.B) {
	store := objecttest.NewMemory()
	entries := files(200_000)
	root := writeTree(b, store, entries)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range object.Entries(b.Context(), store, root) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	perItem(b, len(entries))
}

func BenchmarkManifestWriter(b *testing.B) {
	refs := make([]object.ChunkRef, 100_000)
	for i := range refs {
		refs[i] = object.ChunkRef{ID: object.Sum(fmt.Append(nil, i)), Size: 256 << 10}
	}
	b.ReportAllocs()
	for b.Loop() {
		w := object.NewManifestWriter(object.Discard)
		for _, ref := range refs {
			if err := w.Add(b.Context(), ref); err != nil {
				b.Fatal(err)
			}
		}
		if _, _, err := w.Finish(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	perItem(b, len(refs))
}

func BenchmarkContentReader(b *testing.B) {
	store := objecttest.NewMemory()
	e, content := bigFile(b, store, 200, 50_000)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.Copy(io.Discard, object.NewContentReader(b.Context(), store, e)); err != nil {
			b.Fatal(err)
		}
	}
}
