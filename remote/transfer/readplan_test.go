package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// TestReadPlan checks that all planned chunks are read, in order, in runs that are neither
// too large nor too many.
func TestReadPlan(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		p, want := newReadPlan(), map[object.ID]pack.Entry{}
		for range 1 + rnd.IntN(5) {
			info := pack.Info{Name: pack.Name{byte(rnd.Int())}, Size: pack.MaxSize}
			for off := uint32(32); off < pack.MaxSize-(20<<20) && rnd.IntN(300) > 0; {
				e := pack.Entry{Pack: info, Offset: off, Stored: 1 + uint32(rnd.IntN(200_000)), Raw: rnd.Uint32()}
				if rnd.IntN(50) == 0 {
					e.Stored = object.MaxChunkSize
				}
				off += e.Stored
				if rnd.IntN(4) == 0 {
					off += uint32(rnd.IntN(2 * MaxGap))
				}
				e.Key = object.Key{Kind: object.KindChunk}
				binary.BigEndian.PutUint64(e.Key.ID[:], rnd.Uint64())
				p.add(e)
				p.add(e)
				want[e.Key.ID] = e
			}
		}

		for id := range want {
			if !p.has(object.Key{Kind: object.KindChunk, ID: id}) {
				t.Fatal("has returns false for an added chunk")
			}
		}
		if p.has(object.Key{Kind: object.KindChunk}) || p.n != len(want) {
			t.Fatalf("%d chunks, want %d", p.n, len(want))
		}

		p.sortRecords()
		var last run
		for r := range p.readRuns() {
			if r.size > MaxRead && len(r.records) > 1 {
				t.Errorf("a run of %d bytes, want at most %d", r.size, MaxRead)
			}
			gap := r.off - last.off - int64(last.size)
			if r.pack == last.pack && (gap < 0 || gap <= MaxGap && last.size+int(gap)+int(p.recordAt(r.records[0]).stored) <= MaxRead) {
				t.Errorf("a gap of %d bytes between runs of %d and %d", gap, last.size, r.size)
			}

			end := r.off
			for _, i := range r.records {
				e := p.entryAt(i)
				if e != want[e.Key.ID] || e.Pack != r.pack {
					t.Errorf("%+v, want %+v", e, want[e.Key.ID])
				}
				if int64(e.Offset) < end || int64(e.Offset)-end > MaxGap {
					t.Errorf("a value at %d after a value that ends at %d", e.Offset, end)
				}
				end = int64(e.Offset) + int64(e.Stored)
				delete(want, e.Key.ID)
			}
			if end != r.off+int64(r.size) {
				t.Errorf("a run of %d bytes from %d, want it to end at %d", r.size, r.off, end)
			}
			last = r
		}
		if len(want) > 0 {
			t.Errorf("%d chunks are not read", len(want))
		}
	}
}

// TestReadPlanOverlap checks that overlapping entries, which no pack has, are read
// completely.
func TestReadPlanOverlap(t *testing.T) {
	p := newReadPlan()
	for i, at := range [][2]uint32{{100, 1000}, {100, 50}, {200, 5}, {90, 20}} {
		p.add(pack.Entry{Key: object.Key{Kind: object.KindChunk, ID: object.ID{byte(i + 1)}}, Offset: at[0], Stored: at[1]})
	}
	p.sortRecords()
	for r := range p.readRuns() {
		if r.off != 90 || r.size != 1010 || len(r.records) != 4 {
			t.Errorf("run %+v, want 1010 bytes from 90 with 4 chunks", r)
		}
	}
}

func BenchmarkReadPlan(b *testing.B) {
	const n = 1_000_000
	b.ReportAllocs()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p, rnd := newReadPlan(), rand.New(rand.NewPCG(1, 1))
		for i := range n {
			e := pack.Entry{Key: object.Key{Kind: object.KindChunk}, Offset: rnd.Uint32N(1 << 25), Stored: 1000}
			e.Pack.Name[0] = byte(i)
			binary.BigEndian.PutUint64(e.Key.ID[:], rnd.Uint64())
			p.add(e)
		}
		p.sortRecords()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/chunk")
		runtime.KeepAlive(p)
	}
}

// TestNodePacksOfTwoSizes has entries that disagree about the size of a pack. Values beyond
// the smaller size are damaged.
func TestNodePacksOfTwoSizes(t *testing.T) {
	for _, offset := range []uint32{5000, MaxRead - 10, 2*MaxRead - 10, 3*MaxRead - 70} {
		n, err := OpenNodePacks(t.TempDir(), 1, func(_ context.Context, _ pack.Info, b []byte, _ int64) (int, error) { return len(b), nil })
		if err != nil {
			t.Fatal(err)
		}
		small := pack.Entry{Pack: pack.Info{Name: pack.Name{1}, Size: 1000}, Offset: 100, Stored: 50}
		large := pack.Entry{Pack: pack.Info{Name: pack.Name{1}, Size: 3 * MaxRead}, Offset: offset, Stored: 50}
		n.LoadValues(t.Context(), []pack.Entry{small, large})
		defer n.Close()
		if value, err := n.StoredValue(small); len(value) != 50 || err != nil {
			t.Errorf("value in the smaller size: %d bytes, %v", len(value), err)
		}
		if value, err := n.StoredValue(large); !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("value at %d: %d bytes, %v, want ErrDamaged", offset, len(value), err)
		}
	}
}
