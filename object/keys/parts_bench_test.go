package keys

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// invented yields n records of chunks with random IDs, sorted, without memory for them: the spacings of
// sorted uniform numbers are exponential.
func invented(n int) iter.Seq[Record] {
	spacings := func() func() float64 {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		return rng.ExpFloat64
	}
	next, total := spacings(), 0.0
	for range n + 1 {
		total += next()
	}
	return func(yield func(Record) bool) {
		rng := rand.New(rand.NewPCG(2, uint64(n)))
		next, sum := spacings(), 0.0
		for i := range n {
			sum += next()
			r := Record{Key: object.Key{Kind: object.KindChunk, ID: randomID(rng)}, Raw: 1}
			binary.BigEndian.PutUint64(r.Key.ID[:], uint64(sum/total*(1<<63))<<1)
			binary.BigEndian.PutUint32(r.Key.ID[8:], uint32(i))
			if !yield(r) {
				return
			}
		}
	}
}

// BenchmarkParts measures look-ups in large indexes: requests and bytes for each. With 10 million records, they
// must be at most 2.1 and 4 KiB on average.
func BenchmarkParts(b *testing.B) {
	for _, n := range []int{10_000, 2_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "keys"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			if err := Write(file, n, invented(n)); err != nil {
				b.Fatal(err)
			}
			benchmarkParts(b, file, n)
		})
	}
}

func benchmarkParts(b *testing.B, file *os.File, n int) {
	whole, err := Open(file, Size(n))
	if err != nil {
		b.Fatal(err)
	}
	var head [HeaderSize]byte
	var tail [TrailerSize]byte
	if err = readFull(file, head[:], 0); err == nil {
		err = readFull(file, tail[:], Size(n)-TrailerSize)
	}
	if err != nil {
		b.Fatal(err)
	}

	requests, bytes := 0, 0
	x, err := OpenParts(head[:], tail[:], 0, Size(n), func(_ context.Context, parts []Part) ([][]byte, error) {
		pieces := make([][]byte, len(parts))
		for i, p := range parts {
			requests, bytes = requests+1, bytes+p.Size
			pieces[i] = make([]byte, p.Size)
			if err := readFull(file, pieces[i], p.Off); err != nil {
				return nil, err
			}
		}
		return pieces, nil
	})
	if err != nil {
		b.Fatal(err)
	}

	rng := rand.New(rand.NewPCG(3, 3))
	var keys [1]object.Key
	for i := 0; b.Loop(); i++ {
		keys[0] = object.Key{Kind: object.KindChunk, ID: randomID(rng)}
		if i%2 == 0 {
			r, err := whole.At(rng.IntN(n))
			if err != nil {
				b.Fatal(err)
			}
			keys[0] = r.Key
		}
		found, err := x.Find(b.Context(), keys[:])
		if err != nil || found[0].Index >= 0 != (i%2 == 0) {
			b.Fatalf("Find = %+v, %v", found, err)
		}
	}
	perFind := func(total int) float64 { return float64(total) / float64(b.N) }
	b.ReportMetric(perFind(requests), "requests/op")
	b.ReportMetric(perFind(bytes), "B-read/op")
	if b.N >= 1000 && (perFind(requests) > 2.1 || perFind(bytes) > 4<<10) {
		b.Errorf("%.2f requests of %.0f bytes for each look-up, want 2 of 4 KiB", perFind(requests), perFind(bytes))
	}
}
