package keys

import (
	"bytes"
	"iter"

	"github.com/kist-vcs/kist/object"
)

// scanBlocks is the number of blocks read at once by a scan.
const scanBlocks = 64

// All yields every record, in order. It checks that they are in order; the
// first error, a [*CorruptError], ends it.
func (x *Reader) All() iter.Seq2[Record, error] { return x.scan(0, x.n) }

// scan yields records from to end-1.
func (x *Reader) scan(from, end int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		buf := make([]byte, min(scanBlocks, (end-from)/blockRecords+2)*blockSize)
		var last object.Key
		for i := from; i < end; {
			b := i / blockRecords
			count := min(len(buf)/blockSize, (end-1)/blockRecords-b+1)
			size := (count-1)*blockSize + x.blockLen(b+count-1)*recordSize + 4
			if err := readFull(x.r, buf[:size], headerSize+int64(b)*blockSize); err != nil {
				yield(Record{}, &CorruptError{Part: "block", Block: b, Err: err})
				return
			}
			for n := range count {
				recs, err := x.checkBlock(b+n, buf[n*blockSize:min(size, (n+1)*blockSize)])
				if err != nil {
					yield(Record{}, err)
					return
				}
				for ; i < end && i/blockRecords == b+n; i++ {
					r := x.record(i, recs[i%blockRecords*recordSize:])
					if i > from && r.Key.Compare(last) <= 0 {
						yield(Record{}, &CorruptError{Part: "block", Block: b + n, Err: errOrder})
						return
					}
					last = r.Key
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// Prefix yields the records of one kind whose IDs begin with the first nbits
// bits of prefix (which has at least that many), in order. The first error, a
// [*CorruptError], ends it.
func (x *Reader) Prefix(kind object.Kind, prefix []byte, nbits int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if !kind.Valid() || nbits < 0 || nbits > 8*len(prefix) || nbits > 8*len(object.ID{}) {
			return
		}
		var low object.ID
		copy(low[:], prefix[:(nbits+7)/8])
		if nbits%8 != 0 {
			low[nbits/8] &= 0xff << (8 - nbits%8)
		}
		i, err := x.search(kind, &low)
		if err != nil {
			yield(Record{}, err)
			return
		}
		// A reader that looks for one name reads few blocks.
		for end := x.start[kind]; i < end; {
			to := min(end, i/blockRecords*blockRecords+4*blockRecords)
			for r, err := range x.scan(i, to) {
				if err == nil && !hasPrefix(r.Key.ID, low, nbits) {
					return
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
			i = to
		}
	}
}

func hasPrefix(id, low object.ID, nbits int) bool {
	n := nbits / 8
	if !bytes.Equal(id[:n], low[:n]) {
		return false
	}
	return nbits%8 == 0 || (id[n]^low[n])>>(8-nbits%8) == 0
}

// Verify reads the whole index and checks it: every block's checksum, the
// order of the records, and the filter. It returns the first damage found, a
// [*CorruptError].
func (x *Reader) Verify() error {
	f, err := x.readFilter()
	if err != nil {
		return err
	}
	for r, err := range x.All() {
		if err != nil {
			return err
		}
		if !f.mayHave(&r.Key.ID) {
			return &CorruptError{Part: "filter", Err: errFiltered}
		}
	}
	return nil
}
