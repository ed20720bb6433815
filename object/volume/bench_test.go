package volume

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// peakMemory returns the peak of this process's resident memory, in MiB.
func peakMemory() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// BenchmarkTiny measures a session that stores three small objects.
func BenchmarkTiny(b *testing.B) {
	s := openStore(b, b.TempDir(), testOptions(b))
	ctx := context.Background()
	n := 0
	for b.Loop() {
		ss := s.Begin(SessionOptions{})
		for range 3 {
			n++
			if _, err := ss.Put(ctx, object.KindChunk, fmt.Appendf(nil, "object %d", n)); err != nil {
				b.Fatal(err)
			}
		}
		if err := ss.Publish(ctx, publishNothing); err != nil {
			b.Fatal(err)
		}
		if err := ss.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// noise fills buf with bytes that do not compress, the same for the same seed.
func noise(seed uint64, buf []byte) []byte {
	rng := rand.NewPCG(seed, 1)
	for i := 0; i+8 <= len(buf); i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], rng.Uint64())
	}
	return buf
}

// text fills buf, except the last 16 bytes, with words, the same for the same seed.
func text(seed uint64, buf []byte) []byte {
	words := strings.Fields("the quick brown fox jumps over a lazy dog while kist stores every version of all files func return if err nil package import type struct")
	rng := rand.New(rand.NewPCG(seed, 2))
	b := buf[:0]
	for len(b) < cap(buf)-16 {
		b = append(b, words[rng.IntN(len(words))]...)
		b = append(b, ' ')
		if rng.IntN(8) == 0 {
			b = strconv.AppendInt(b, rng.Int64N(1<<30), 10)
		}
	}
	return b[:cap(buf)-16]
}

// benchmarkPut measures a session with two workers that put objects, and its Publish.
func benchmarkPut(b *testing.B, size, count int, fill func(uint64, []byte) []byte) {
	ctx := context.Background()
	b.SetBytes(int64(size) * int64(count))
	for i := 0; b.Loop(); i++ {
		s := openStore(b, b.TempDir(), testOptions(b))
		ss := s.Begin(SessionOptions{})
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				buf := fill(1, make([]byte, size))
				for n := next.Add(1); n <= int64(count); n = next.Add(1) {
					binary.LittleEndian.PutUint64(buf, uint64(n))
					if _, err := ss.Put(ctx, object.KindChunk, buf); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if err := ss.Publish(ctx, publishNothing); err != nil {
			b.Fatal(err)
		}
		ss.Close()
		os.RemoveAll(s.path)
	}
	b.ReportMetric(peakMemory(), "peak-MiB")
}

func BenchmarkPut(b *testing.B) {
	b.Run("1MiB-noise", func(b *testing.B) { benchmarkPut(b, 1<<20, 1024, noise) })
	b.Run("2KiB-text", func(b *testing.B) { benchmarkPut(b, 2048, 100_000, text) })
}

func BenchmarkGet(b *testing.B) {
	ctx := context.Background()
	s := openStore(b, b.TempDir(), testOptions(b))
	ss := s.Begin(SessionOptions{})
	ids := make([]object.ID, 200_000)
	buf := text(1, make([]byte, 600))
	for i := range ids {
		binary.LittleEndian.PutUint64(buf, uint64(i))
		var err error
		if ids[i], err = ss.Put(ctx, object.KindChunk, buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := ss.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(ctx, object.Key{Kind: object.KindChunk, ID: ids[rand.IntN(len(ids))]}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFind measures the search for missing objects in 40 volumes.
func BenchmarkFind(b *testing.B) {
	ctx := context.Background()
	s := openStore(b, b.TempDir(), testOptions(b))
	buf := make([]byte, 64)
	for v := range 40 {
		ss := s.Begin(SessionOptions{})
		for i := range 5000 {
			binary.LittleEndian.PutUint64(buf, uint64(v))
			binary.LittleEndian.PutUint64(buf[8:], uint64(i))
			if _, err := ss.Put(ctx, object.KindChunk, buf); err != nil {
				b.Fatal(err)
			}
		}
		if err := ss.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	key := object.Key{Kind: object.KindChunk}
	for b.Loop() {
		noise(uint64(b.N)+rand.Uint64(), key.ID[:])
		if v, _, err := s.findObject(key); v != nil || err != nil {
			b.Fatal(v, err)
		}
	}
}
