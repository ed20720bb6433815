package transfer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

const (
	MaxRead = 8 << 20   // bytes of a ranged read, unless a single value has more
	MaxGap  = 128 << 10 // bytes between two values that are read to save a request
)

// readPlan has the objects to read and their places. It takes about 70 bytes for each. It
// is not safe for concurrent use.
type readPlan struct {
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
	key                       object.Key
	pack, offset, stored, raw uint32
}

func newReadPlan() *readPlan {
	return &readPlan{seed: maphash.MakeSeed(), index: make([]uint32, 256), numbers: map[pack.Name]uint32{}}
}

// recordAt returns record i.
func (p *readPlan) recordAt(i uint32) *planned { return &p.records[i/planBlock][i%planBlock] }

// slotOf returns the slot of key in the index, or the free slot for it.
func (p *readPlan) slotOf(key *object.Key) int {
	mask := len(p.index) - 1
	for i := int(maphash.Bytes(p.seed, key.ID[:])) & mask; ; i = (i + 1) & mask {
		if n := p.index[i]; n == 0 || p.recordAt(n-1).key == *key {
			return i
		}
	}
}

// has reports whether an object is in the plan.
func (p *readPlan) has(key object.Key) bool { return p.index[p.slotOf(&key)] != 0 }

// add adds the object of an entry, unless it is there.
func (p *readPlan) add(e pack.Entry) {
	slot := p.slotOf(&e.Key)
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
	*p.recordAt(uint32(p.n - 1)) = planned{e.Key, number, e.Offset, e.Stored, e.Raw}
	p.index[slot] = uint32(p.n)
	if 4*p.n > 3*len(p.index) {
		p.index = make([]uint32, 2*len(p.index))
		for i := range uint32(p.n) {
			p.index[p.slotOf(&p.recordAt(i).key)] = i + 1
		}
	}
}

// entryAt returns the entry of record i.
func (p *readPlan) entryAt(i uint32) pack.Entry {
	r := p.recordAt(i)
	return pack.Entry{Key: r.key, Pack: p.packs[r.pack], Offset: r.offset, Stored: r.stored, Raw: r.raw}
}

// sortRecords puts the records in the order in which they are read. Nothing is added
// afterwards.
func (p *readPlan) sortRecords() {
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
func (p *readPlan) readRuns() iter.Seq[run] {
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

// readValue is a stored value that was read, as it is, or the reason why the pack does not have it.
type readValue struct {
	pack.Entry
	value []byte
	held  pack.Part // the read part of the pack
	err   error     // matches IsBadCopy
}

// readAll reads all objects of the plan, after sort, several reads at once. While one read waits for
// the remote, others decode. It calls use with each value, in several goroutines at once. Use
// must not keep the bytes. The first error of use or of the connection ends readAll. Its
// buffers take jobs times MaxRead bytes, unless single values have more.
func (p *readPlan) readAll(ctx context.Context, jobs int, get pack.Getter, use func(context.Context, readValue) error) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	buffers := make(chan []byte, jobs)
	for range jobs {
		buffers <- nil
	}

	for r := range p.readRuns() {
		if gctx.Err() != nil {
			break
		}
		group.Go(func() error {
			buf := <-buffers
			defer func() { buffers <- buf }()
			if r.size > len(buf) {
				buf = make([]byte, max(r.size, min(2*len(buf), MaxRead)))
			}
			return p.readRun(gctx, r, buf[:r.size], get, use)
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

// readRun reads a part of a pack into buf.
func (p *readPlan) readRun(ctx context.Context, r run, buf []byte, get pack.Getter, use func(context.Context, readValue) error) error {
	n, err := get(ctx, r.pack, buf, r.off)
	if err != nil && !IsBadCopy(err) {
		return fmt.Errorf("read pack %s: %w", r.pack.Name, err)
	}

	held := pack.Part{Off: r.off, Data: buf[:n]}
	for _, i := range r.records {
		v := readValue{Entry: p.entryAt(i), held: held, err: err}
		start := int(int64(v.Offset) - r.off)
		end := start + int(v.Stored)
		switch {
		case err != nil:
		case end > n:
			v.err = ErrShortPack(r.pack, r.off+int64(n))
		default:
			v.value = buf[start:end]
		}
		if err := use(ctx, v); err != nil {
			return err
		}
	}
	return nil
}
