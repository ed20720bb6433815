package crypt

import (
	"bytes"
	"io"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// BenchmarkSeal encrypts a full pack, as a store reads it.
func BenchmarkSeal(b *testing.B) {
	data, keys, piece := sample(1, 32<<20), testKeys(b, 1), make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		head, err := newBlob(keys, packName, int64(len(data)), first)
		if err != nil {
			b.Fatal(err)
		}
		body := newSealed(head, bytes.NewReader(data))
		for off := int64(0); ; off += int64(len(piece)) {
			if _, err := body.ReadAt(piece, off); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkGet reads a full pack from memory, in pieces.
func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"8MiB", 8 << 20}, {"10KiB", 10 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			m := remotetest.NewMemory()
			s := New(m, Options{Keys: testKeys(b, 1)})
			put(b, s, packName, sample(1, 32<<20))
			p := make([]byte, c.size)
			off := int64(0)
			b.SetBytes(int64(c.size))
			for b.Loop() {
				if _, err := s.Get(b.Context(), packName, p, off); err != nil {
					b.Fatal(err)
				}
				if off += int64(c.size); off+int64(c.size) > 32<<20 {
					off = 0
				}
			}
		})
	}
}

// BenchmarkHeader makes and opens the header of a blob.
func BenchmarkHeader(b *testing.B) {
	keys := testKeys(b, 1)
	for b.Loop() {
		head, err := newBlob(keys, packName, 100, first)
		if err == nil {
			_, err = openBlob(keys.Remote, keys.Of(1), packName, head.header)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
