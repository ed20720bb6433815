package pack

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

const benchEntries = 1_000_000

func BenchmarkWriteIndex(b *testing.B) {
	entries := manyEntries(benchEntries)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteIndex(io.Discard, entries); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIndex searches an index file on disk.
func BenchmarkIndex(b *testing.B) {
	entries := manyEntries(benchEntries)
	path := filepath.Join(b.TempDir(), "index")
	data := writeIndexFile(b, entries)
	size := int64(len(data))
	if err := os.WriteFile(path, data, 0o666); err != nil {
		b.Fatal(err)
	}

	data = nil
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()

	open := func() *Index {
		x, err := OpenIndex(f, size)
		if err != nil {
			b.Fatal(err)
		}
		return x
	}

	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open()
		}
	})

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	x := open()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		x.Find(entries[rng.IntN(len(entries))].Key)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)

	held := float64(after.HeapAlloc) - float64(before.HeapAlloc)
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := x.Find(entries[rng.IntN(len(entries))].Key); !ok || err != nil {
				b.Fatal("not found", err)
			}
		}
		b.ReportMetric(float64(size), "file-bytes")
		b.ReportMetric(held, "held-bytes")
	})

	b.Run("miss", func(b *testing.B) {
		key := object.Key{Kind: object.KindChunk}
		for b.Loop() {
			for i := range key.ID[:24] {
				key.ID[i] = byte(rng.Uint32())
			}
			if _, ok, err := x.Find(key); ok || err != nil {
				b.Fatal("found", err)
			}
		}
	})

	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for _, err := range x.All() {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkWriter builds packs of 1 MiB chunks and packs of small nodes.
func BenchmarkWriter(b *testing.B) {
	for _, bench := range []struct {
		name string
		kind object.Kind
		size int
	}{{"chunks", object.KindChunk, 1 << 20}, {"nodes", object.KindTree, 500}} {
		b.Run(bench.name, func(b *testing.B) {
			w := NewWriter(make([]byte, 0, TargetSize+4<<20))
			value := make([]byte, 1+bench.size)
			rng := rand.New(rand.NewPCG(5, 6))
			for b.Loop() {
				w.Reset()
				for !w.Full(len(value)) {
					key := object.Key{Kind: bench.kind}
					for i := range key.ID {
						key.ID[i] = byte(rng.Uint32())
					}
					if err := w.Add(key, value, bench.size); err != nil {
						b.Fatal(err)
					}
				}

				body, _, err := w.Finish(nameOf(1))
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
			}
		})
	}
}

func BenchmarkReadIndex(b *testing.B) {
	body, _ := build(b, nameOf(1), items(1, 3000))
	for b.Loop() {
		if _, err := ReadIndex(infoOf(nameOf(1), body), getter(body)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead decodes all objects of a pack in memory and verifies their hashes.
func BenchmarkRead(b *testing.B) {
	body, _ := build(b, nameOf(1), items(1, 3000))
	get := getter(body)
	raw := int64(0)
	for b.Loop() {
		entries, err := ReadIndex(infoOf(nameOf(1), body), get)
		if err != nil {
			b.Fatal(err)
		}
		var data []byte
		raw = 0
		for _, e := range entries {
			data, err = frame.Decode(data[:0], value(body, e), int(e.Raw))
			if err != nil || object.Sum(data) != e.Key.ID {
				b.Fatalf("%v: %v", e.Key, err)
			}
			raw += int64(len(data))
		}
	}
	b.SetBytes(raw)
	b.ReportAllocs()
}
