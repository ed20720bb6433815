package transfer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
)

func TestBatches(t *testing.T) {
	p := &plan{}
	for i := range 100 {
		p.chunks.add(item{object.Key{Kind: object.KindChunk, ID: object.Sum([]byte{byte(i)})}, uint32(i%5) << 20})
	}
	p.nodes.add(item{object.Key{Kind: object.KindTree}, 100})
	for _, c := range []struct{ jobs, size int }{{1, 200 << 20 / 7}, {3, 200 << 20 / 9}, {4, 25 << 20}, {100, SmallPack}} {
		all := p.cutBatches(remotetest.NewMemory(), c.jobs)
		if len(all[0]) != 1 {
			t.Fatalf("%d jobs: %d objects in the first batch", c.jobs, len(all[0]))
		}
		if got := slices.Concat(all[1:]...); !slices.Equal(got, p.chunks.items) {
			t.Errorf("%d jobs: chunks are missing, or not in order", c.jobs)
		}
		for _, batch := range all[1 : len(all)-1] {
			size := 0
			for _, it := range batch {
				size += it.packRoom()
			}
			if size < c.size || size > c.size+5<<20 {
				t.Errorf("%d jobs: a batch of %d bytes", c.jobs, size)
			}
		}
	}
}

// In an encrypted store, all packs of a push have the same size, except the last one with nodes and the last one with
// chunks: no batch is larger than a full pack, and all are padded to it.
func TestBatchesLookAlike(t *testing.T) {
	s := crypt.New(remotetest.NewMemory(), crypt.Options{Keys: &crypt.Keys{Epochs: []crypt.Key{crypt.NewKey()}}})
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ total, full int }{{20 << 20, 8 << 20}, {40 << 20, 16 << 20}, {90 << 20, 32 << 20}, {200 << 20, 32 << 20}, {1 << 30, 32 << 20}} {
		p := &plan{}
		for total := 0; total < c.total; total += int(p.chunks.items[len(p.chunks.items)-1].stored) {
			p.chunks.add(item{stored: 64<<10 + rng.Uint32N(2<<20-64<<10-EntryRoom)})
		}
		batches := p.cutBatches(s, 4)
		if got := slices.Concat(batches...); !slices.Equal(got, p.chunks.items) {
			t.Errorf("%d bytes: chunks are missing, or not in order", c.total)
		}
		for i, batch := range batches {
			stored := int64(0)
			for _, it := range batch {
				stored += int64(it.stored)
			}
			size := pack.SizeOf(len(batch), stored)
			last := i == len(batches)-1
			if size > int64(c.full) || !last && s.StoredSize("packs/00/0", size) != s.StoredSize("packs/00/0", int64(c.full)) {
				t.Errorf("%d bytes: pack %d of %d has %d bytes, stored as %d", c.total, i, len(batches), size, s.StoredSize("packs/00/0", size))
			}
		}
	}

	if got := (PackSizesFor(s, 1)); got != (PackSizes{SmallPack, SmallPack}) {
		t.Errorf("the smallest packs: %v", got)
	}
	if got := (PackSizesFor(remotetest.NewMemory(), 1234)); got != (PackSizes{1234, pack.MaxSize}) {
		t.Errorf("packs of a store that does not encrypt: %v", got)
	}
}
