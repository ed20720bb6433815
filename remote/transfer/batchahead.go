package transfer

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// batchAhead reads packs ahead while batches follow one another in them, as those of a large file do. So a pack that is read in order takes
// one or two requests. It is safe for concurrent use, but helps only one batch at a time. It keeps the bytes read ahead, up to one and a half
// times mostAhead, until a batch does not follow.
type batchAhead struct {
	mu   sync.Mutex // held by a batch
	last pack.Entry // that the batch before ended with; zero: none
	step int64      // bytes of the last read ahead
	held pack.Part  // of the pack of last, in buf
	buf  []byte
}

const (
	leastBatch = 1 << 20  // bytes of the smallest batch that may be followed
	firstAhead = 8 << 20  // bytes of the first read ahead; each next one has twice as many
	mostAhead  = 32 << 20 // bytes, and half of that if the pack then ends
)

// aheadBatch is a batch that uses a batchAhead. Nil: one that does not.
type aheadBatch struct {
	*batchAhead
	last    pack.Entry // of the batch
	follows bool
}

// endOf returns the offset behind the value of e.
func endOf(e pack.Entry) int64 { return int64(e.Offset) + int64(e.Stored) }

// beginBatch begins a batch of entries, in the order of their use. The caller calls end.
func (a *batchAhead) beginBatch(entries []pack.Entry) *aheadBatch {
	size := int64(0)
	for _, e := range entries {
		size += int64(e.Stored)
	}
	if size < leastBatch || size > mostAhead || !a.mu.TryLock() {
		return nil
	}

	b := &aheadBatch{batchAhead: a, last: entries[len(entries)-1]}
	first, after := entries[0], int64(remote.HeaderSize)
	if a.last.Pack.Name == first.Pack.Name {
		after = endOf(a.last)
	}
	ended := int64(a.last.Pack.Size)-endOf(a.last) <= MaxGap // the rest is an index
	gap := int64(first.Offset) - after
	b.follows = !a.last.Key.IsZero() && gap >= 0 && gap <= MaxGap && (ended || a.last.Pack.Name == first.Pack.Name)
	if !b.follows {
		a.step, a.held, a.buf = 0, pack.Part{}, nil
	}
	return b
}

// readEntries calls use with the value of each of entries, which are in the order of their use. See [readPlan.readAll] for the rest.
func (a *batchAhead) readEntries(ctx context.Context, jobs int, entries []pack.Entry, get pack.Getter, use func(context.Context, readValue) error) error {
	batch := a.beginBatch(entries)
	defer batch.end()
	plan := newReadPlan()
	var held []readValue
	for _, e := range entries {
		if value := batch.findHeld(e); value != nil {
			held = append(held, readValue{Entry: e, value: value, held: batch.held})
		} else {
			plan.add(e)
		}
	}
	err := Parallel(ctx, jobs, len(held), func(ctx context.Context, i int) error { return use(ctx, held[i]) })
	if err != nil {
		return err
	}
	plan.sortRecords()
	return plan.readAll(ctx, jobs, batch.makeGetter(get), use)
}

// findHeld returns the value of e, if it was read ahead.
func (b *aheadBatch) findHeld(e pack.Entry) []byte {
	if b == nil || e.Pack.Name != b.batchAhead.last.Pack.Name {
		return nil
	}
	at := int64(e.Offset) - b.held.Off
	if at < 0 || at+int64(e.Stored) > int64(len(b.held.Data)) {
		return nil
	}
	return b.held.Data[at:][:e.Stored]
}

// makeGetter returns a [pack.Getter] that gets by get. It reads ahead behind the last value of the batch, if the batch follows another.
func (b *aheadBatch) makeGetter(get pack.Getter) pack.Getter {
	if b == nil || !b.follows {
		return get
	}
	return func(ctx context.Context, p pack.Info, data []byte, off int64) (int, error) {
		if p.Name != b.last.Pack.Name || off+int64(len(data)) != endOf(b.last) {
			return get(ctx, p, data, off)
		}
		size := min(max(2*b.step, firstAhead), mostAhead)
		b.step, size = size, max(size, int64(len(data)))
		if left := int64(p.Size) - off; left <= size+size/2 {
			size = max(left, int64(len(data)))
		}
		if int64(cap(b.buf)) < size {
			b.buf = make([]byte, size)
		}
		n, err := get(ctx, p, b.buf[:size], off)
		if err != nil {
			b.held = pack.Part{}
			return 0, err
		}
		b.held = pack.Part{Off: off, Data: b.buf[:n]}
		return copy(data, b.buf[:n]), nil
	}
}

// end ends the batch.
func (b *aheadBatch) end() {
	if b == nil {
		return
	}
	if b.batchAhead.last = b.last; endOf(b.last) >= b.held.Off+int64(len(b.held.Data)) {
		b.held = pack.Part{} // all of it was used
	}
	b.mu.Unlock()
}
