package transfer

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestBatches(t *testing.T) {
	p := &plan{}
	for i := range 100 {
		p.chunks = append(p.chunks, item{object.Key{Kind: object.KindChunk, ID: object.Sum([]byte{byte(i)})}, uint32(i%5) << 20})
	}
	p.nodes = []item{{object.Key{Kind: object.KindTree}, 100}}
	for _, c := range []struct{ jobs, size int }{{1, 200 << 20 / 7}, {3, 200 << 20 / 9}, {4, 25 << 20}, {100, SmallPack}} {
		all := p.cutBatches(c.jobs)
		if len(all[0]) != 1 {
			t.Fatalf("%d jobs: %d objects in the first batch", c.jobs, len(all[0]))
		}
		if got := slices.Concat(all[1:]...); !slices.Equal(got, p.chunks) {
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
