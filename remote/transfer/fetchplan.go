package transfer

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

const (
	MaxRead = 8 << 20   // bytes of a ranged read, unless a single value has more
	MaxGap  = 128 << 10 // bytes between two values that are read to save a request
)

// chunkPlan has the chunks to fetch and their places. It takes about 65 bytes for each. It
// is not safe for concurrent use.
type chunkPlan struct {
	seed    maphash.Seed
	records []*[planBlock]planned
	n       int
	index   []uint32 // open addressing; number of a record + 1, or 0

	packs   []pack.Info
	numbers map[pack.Name]uint32 // of packs
	order   []uint32             // records by pack and offset
}

const planBlock = 1024

type planned struct {
	id                        object.ID
	pack, offset, stored, raw uint32
}

func newChunkPlan() *chunkPlan {
	return &chunkPlan{seed: maphash.MakeSeed(), index: make([]uint32, 256), numbers: map[pack.Name]uint32{}}
}

// recordAt returns record i.
func (p *chunkPlan) recordAt(i uint32) *planned { return &p.records[i/planBlock][i%planBlock] }

// slotOf returns the slot of id in the index, or the free slot for it.
func (p *chunkPlan) slotOf(id *object.ID) int {
	mask := len(p.index) - 1
	for i := int(maphash.Bytes(p.seed, id[:])) & mask; ; i = (i + 1) & mask {
		if n := p.index[i]; n == 0 || p.recordAt(n-1).id == *id {
			return i
		}
	}
}

// has reports whether a chunk is in the plan.
func (p *chunkPlan) has(id object.ID) bool { return p.index[p.slotOf(&id)] != 0 }

// add adds the chunk of an entry, unless it is there.
func (p *chunkPlan) add(e pack.Entry) {
	slot := p.slotOf(&e.Key.ID)
	if p.index[slot] != 0 {
		return
	}

	number, ok := p.numbers[e.Pack.Name]
	if !ok {
		number = uint32(len(p.packs))
		p.packs = append(p.packs, e.Pack)
		p.numbers[e.Pack.Name] = number
	}
	if p.n%planBlock == 0 {
		p.records = append(p.records, new([planBlock]planned))
	}

	p.n++
	*p.recordAt(uint32(p.n - 1)) = planned{e.Key.ID, number, e.Offset, e.Stored, e.Raw}
	p.index[slot] = uint32(p.n)
	if 4*p.n > 3*len(p.index) {
		p.index = make([]uint32, 2*len(p.index))
		for i := range uint32(p.n) {
			p.index[p.slotOf(&p.recordAt(i).id)] = i + 1
		}
	}
}

// entryAt returns the entry of record i.
func (p *chunkPlan) entryAt(i uint32) pack.Entry {
	r := p.recordAt(i)
	return pack.Entry{
		Key:  object.Key{Kind: object.KindChunk, ID: r.id},
		Pack: p.packs[r.pack], Offset: r.offset, Stored: r.stored, Raw: r.raw,
	}
}

// sortRecords puts the records in the order in which they are read. Nothing is added
// afterwards.
func (p *chunkPlan) sortRecords() {
	p.index = nil
	p.order = make([]uint32, p.n)
	for i := range p.order {
		p.order[i] = uint32(i)
	}
	slices.SortFunc(p.order, func(i, j uint32) int {
		a, b := p.recordAt(i), p.recordAt(j)
		return cmp.Or(cmp.Compare(a.pack, b.pack), cmp.Compare(a.offset, b.offset))
	})
}

// run is a part of a pack that is read at once, and the records in it.
type run struct {
	pack    pack.Info
	off     int64
	size    int
	records []uint32
}

// readRuns yields the parts of packs to read, after sort: neighbours together.
func (p *chunkPlan) readRuns() iter.Seq[run] {
	return func(yield func(run) bool) {
		for i := 0; i < len(p.order); {
			first := p.recordAt(p.order[i])
			start, end := int64(first.offset), int64(first.offset)+int64(first.stored)
			j := i + 1
			for ; j < len(p.order); j++ {
				next := p.recordAt(p.order[j])
				after := max(end, int64(next.offset)+int64(next.stored))
				if next.pack != first.pack || int64(next.offset)-end > MaxGap || after-start > MaxRead {
					break
				}
				end = after
			}
			if !yield(run{p.packs[first.pack], start, int(end - start), p.order[i:j]}) {
				return
			}
			i = j
		}
	}
}
