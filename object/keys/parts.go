package keys

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
)

// The sizes of reads of an index in parts.
const (
	entrySize  = 8       // of the table
	deviations = 4       // standard deviations on each side of the expected place
	maxWindow  = 1 << 17 // entries of the table that are read at once
	fewRecords = 50_000  // records of a kind whose blocks around the expected place, at most 48 KiB, are read instead of the table
	fewBlocks  = 42      // blocks of a kind that take no longer to read than one request
	someBlocks = 680     // blocks of a kind, 1 MiB, that are read at once after some look-ups
	manyFinds  = 4       // these look-ups
)

// Part is a part of an index: a block, or a piece of the table.
type Part struct {
	Off   int64 // in the file
	Size  int   // bytes
	block int   // its number; -1: a piece of the table
}

// Check returns an error that matches [object.ErrCorrupt] if data is not the block. A piece of the table has
// no checksum: every piece passes.
func (p Part) Check(data []byte) error {
	if p.block < 0 || hasSum(data) {
		return nil
	}
	return &CorruptError{Part: "block", Block: p.block, Err: errChecksum}
}

// IsHole reports whether data, read from a sparse copy of the index, may have zeros in the place of bytes
// that were never copied. A block with a checksum that matches is none.
func (p Part) IsHole(data []byte) bool {
	if p.block >= 0 {
		return !hasSum(data)
	}
	for ; len(data) > 0; data = data[entrySize:] {
		if binary.BigEndian.Uint64(data) == 0 {
			return true
		}
	}
	return false
}

// PartReader reads parts of an index, which are sorted by offset and may overlap. It returns the bytes of
// each, which passed [Part.Check], and should keep them, because they are read again.
type PartReader func(ctx context.Context, parts []Part) ([][]byte, error)

// Parts searches an index and reads only parts of it. IDs are hashes, so the expected place of an ID in the
// table is known. Parts reads the table around it, and then the block. It takes what the table says for a hint: the
// table's checksum covers all of it. Only blocks prove that a record exists, or that none does. Parts is safe for
// concurrent use if the PartReader is.
type Parts struct {
	layout
	base  int64 // offset of the index in the file
	read  PartReader
	finds [kinds + 1]atomic.Int32 // look-ups of each kind
	whole [kinds + 1]atomic.Bool  // all blocks of the kind were read
}

// HeaderSize and TrailerSize are the sizes of an index's first and last bytes, which [OpenParts] needs.
const (
	HeaderSize  = headerSize
	TrailerSize = trailerSize
)

// OpenParts returns the Parts of an index of size bytes, which begins at base in a file and has this header and
// trailer. The error is a [*CorruptError].
func OpenParts(header, trailer []byte, base, size int64, read PartReader) (*Parts, error) {
	if err := checkHeader(header); err != nil {
		return nil, &CorruptError{Part: "header", Err: err}
	}
	l, err := parseTrailer(trailer, size)
	if err != nil {
		return nil, err
	}
	return &Parts{layout: l, base: base, read: read}, nil
}

// Find returns a record for each of keys, which are sorted. The record of an absent key has Index -1. For one key,
// it reads two parts, one after the other; seldom more. For a key of a kind with few records, up to 50,000, it reads the
// blocks around the expected place at once. It makes an end with hostile bytes, too: each block that
// it reads leaves fewer blocks to read.
func (x *Parts) Find(ctx context.Context, keys []object.Key) ([]Record, error) {
	found := make([]Record, len(keys))
	var open []*search
	for i, key := range keys {
		found[i] = Record{Key: key, Index: -1}
		if x.hasKind(key.Kind) {
			open = append(open, &search{found: &found[i], lo: x.start[key.Kind-1], hi: x.start[key.Kind], hint: -1})
		}
	}

	if err := x.readKinds(ctx, open); err != nil {
		return nil, err
	}
	open, err := x.readNear(ctx, open)
	if err != nil {
		return nil, err
	}
	if err := x.readTable(ctx, open); err != nil {
		return nil, err
	}
	for len(open) > 0 {
		if err := x.readNext(ctx, open); err != nil {
			return nil, err
		}
		open = withoutEnded(open)
	}
	return found, nil
}

// search is the search for a key.
type search struct {
	found  *Record
	lo, hi int // the first record that is not before the key has a number from lo to hi
	hint   int // the block in which the key should be, by the table; -1: unknown
	reads  int // of blocks
}

// withoutEnded returns the searches that have not ended.
func withoutEnded(open []*search) []*search {
	return slices.DeleteFunc(open, func(s *search) bool { return s.lo >= s.hi })
}

// readKinds reads all blocks of kinds with few, and of kinds with some after some look-ups. So the commits of a
// remote take one request.
func (x *Parts) readKinds(ctx context.Context, open []*search) error {
	for i, s := range open {
		k := s.found.Key.Kind
		x.finds[k].Add(1)
		if i+1 < len(open) && open[i+1].found.Key.Kind == k || x.whole[k].Load() {
			continue
		}
		first, last := x.blocksOf(k)
		if n := last - first + 1; n > fewBlocks && (n > someBlocks || x.finds[k].Load() < manyFinds) {
			continue
		}
		if _, err := x.read(ctx, x.blockParts(first, last)); err != nil {
			return err
		}
		x.whole[k].Store(true)
	}
	return nil
}

// ReadNodes reads all that later look-ups of nodes need, and the table: then each look-up of a chunk reads one block. These parts are
// neighbours in the file. It reads nothing if they have more than most bytes.
func (x *Parts) ReadNodes(ctx context.Context, most int) error {
	if x.n == 0 {
		return nil
	}
	first, last := x.start[object.KindChunk]/blockRecords, (x.n-1)/blockRecords
	table := x.tablePart(window{from: 0, to: last})
	if table.Size > most || (last+1-first)*blockSize > most-table.Size {
		return nil
	}
	_, err := x.read(ctx, append(x.blockParts(first, last), table))
	return err
}

// blockParts returns the blocks from first to last.
func (x *Parts) blockParts(first, last int) (parts []Part) {
	for b := first; b <= last; b++ {
		parts = append(parts, x.blockPart(b))
	}
	return parts
}

// readNear reads the blocks around the expected place of each key, if these are few. It returns the searches that have not ended.
func (x *Parts) readNear(ctx context.Context, open []*search) ([]*search, error) {
	var near []window
	wanted := map[int]bool{}
	for _, s := range open {
		k := s.found.Key.Kind
		w, ok := x.windowOf(s, 1)
		if !ok || x.start[k]-x.start[k-1] > fewRecords {
			continue
		}
		near = append(near, w)
		for b := w.from; b <= w.to; b++ {
			wanted[b] = true
		}
	}
	if len(near) == 0 {
		return open, nil
	}

	blocks := slices.Sorted(maps.Keys(wanted))
	data, err := x.readBlocks(ctx, blocks)
	if err != nil {
		return nil, err
	}
	for _, w := range near {
		at, _ := slices.BinarySearch(blocks, w.from)
		for b := w.from; b <= w.to && w.lo < w.hi; b++ {
			x.searchIn(w.search, b, data[at+b-w.from])
		}
	}
	return withoutEnded(open), nil
}

// readBlocks returns the records of blocks, which are sorted.
func (x *Parts) readBlocks(ctx context.Context, blocks []int) ([][]byte, error) {
	parts := make([]Part, len(blocks))
	for i, b := range blocks {
		parts[i] = x.blockPart(b)
	}
	data, err := x.read(ctx, parts)
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if len(data[i]) != p.Size {
			return nil, &CorruptError{Part: "block", Block: p.block, Err: fmt.Errorf("%d bytes", len(data[i]))}
		}
		data[i] = data[i][:p.Size-4]
	}
	return data, nil
}

func (x *Parts) blockPart(b int) Part {
	return Part{Off: x.base + headerSize + int64(b)*blockSize, Size: x.blockLen(b)*recordSize + 4, block: b}
}

// window is a piece of the table, from entry from to entry to, that was read for a search.
type window struct {
	*search
	from, to int
}

func (x *Parts) tablePart(w window) Part {
	_, table, _, _, _ := sections(int64(x.n))
	return Part{Off: x.base + table + int64(w.from)*entrySize, Size: (w.to - w.from + 1) * entrySize, block: -1}
}

// windowOf returns the window around the expected place of the key of s, scale times as large as
// usual. It reports whether that is worth reading.
func (x *Parts) windowOf(s *search, scale float64) (window, bool) {
	k := s.found.Key.Kind
	first, last := x.blocksOf(k)
	if last-first < fewBlocks {
		return window{}, false
	}
	n, p := float64(x.start[k]-x.start[k-1]), float64(prefix(s.found.Key.ID))/(1<<64)
	middle := (x.start[k-1] + int(n*p)) / blockRecords
	radius := int(min(scale*(1+deviations*math.Sqrt(n*p*(1-p))/blockRecords), maxWindow))
	w := window{s, max(first, middle-radius), min(last, middle+radius)}
	return w, w.to-w.from < maxWindow
}

// readTable sets the hints. If a key is outside its window, it reads larger ones.
func (x *Parts) readTable(ctx context.Context, open []*search) error {
	for scale := 1.0; ; scale *= 8 {
		var windows []window
		for _, s := range open {
			if s.hint < 0 {
				if w, ok := x.windowOf(s, scale); ok {
					windows = append(windows, w)
				}
			}
		}
		if len(windows) == 0 {
			return nil
		}

		slices.SortFunc(windows, func(a, b window) int { return a.from - b.from })
		parts := make([]Part, len(windows))
		for i, w := range windows {
			parts[i] = x.tablePart(w)
		}
		pieces, err := x.read(ctx, parts)
		if err != nil {
			return err
		}
		for i, w := range windows {
			x.setHint(w, pieces[i])
		}
	}
}

// setHint sets the hint of a search by its window, unless the key is outside.
func (x *Parts) setHint(w window, table []byte) {
	want := prefix(w.found.Key.ID)
	first, last := x.blocksOf(w.found.Key.Kind)
	entry := func(b int) uint64 { return binary.BigEndian.Uint64(table[(b-w.from)*entrySize:]) }
	low := max(w.from, first+1) // the first block may begin with records of another kind
	b := low + sort.Search(w.to+1-low, func(i int) bool { return entry(low+i) >= want })
	switch {
	case b == low && w.from > first, b > w.to && w.to < last:
	case b <= w.to && entry(b) == want:
		w.hint = b
	default:
		w.hint = b - 1
	}
}

// readNext reads a block for each search.
func (x *Parts) readNext(ctx context.Context, open []*search) error {
	next := make([]int, len(open))
	for i, s := range open {
		next[i] = s.nextBlock()
	}

	blocks := slices.Compact(slices.Sorted(slices.Values(next)))
	data, err := x.readBlocks(ctx, blocks)
	if err != nil {
		return err
	}
	for i, s := range open {
		at, _ := slices.BinarySearch(blocks, next[i])
		x.searchIn(s, next[i], data[at])
	}
	return nil
}

// nextBlock returns the block to read next, which can have the key: that of the hint, then its neighbour, then the middle
// one.
func (s *search) nextBlock() int {
	first, last := s.lo/blockRecords, (s.hi-1)/blockRecords
	s.reads++
	switch {
	case s.reads == 1 && s.hint >= first && s.hint <= last:
		return s.hint
	case s.reads == 2 && first == s.hint+1:
		return first
	case s.reads == 2 && last == s.hint-1:
		return last
	}
	return (first + last) / 2
}

// searchIn continues a search with the records of block b. Afterwards the block is no longer between lo and hi.
func (x *Parts) searchIn(s *search, b int, recs []byte) {
	key := s.found.Key
	i := x.lowerBound(b, recs, key.Kind, &key.ID)
	if r, ok := x.recordFrom(b, recs, i, key); ok {
		*s.found, s.lo, s.hi = r, i, i
		return
	}
	if i > max(b*blockRecords, x.start[key.Kind-1]) {
		s.lo = max(s.lo, i)
	}
	if i < min((b+1)*blockRecords, x.start[key.Kind]) {
		s.hi = min(s.hi, i)
	}
}

// maxKind is the number of blocks, 6 MiB, of the largest kind that OfKind reads.
const maxKind = 4096

// OfKind returns all records of a kind, sorted, in as few reads as possible. Complete is false, and there are none, if there are too
// many.
func (x *Parts) OfKind(ctx context.Context, k object.Kind) (records []Record, complete bool, err error) {
	if !x.hasKind(k) {
		return nil, true, nil
	}
	first, last := x.blocksOf(k)
	if last-first >= maxKind {
		return nil, false, nil
	}
	blocks, err := x.read(ctx, x.blockParts(first, last))
	if err != nil {
		return nil, false, err
	}
	x.whole[k].Store(true)
	for i, data := range blocks {
		for n := range x.blockLen(first + i) {
			if at := (first+i)*blockRecords + n; at >= x.start[k-1] && at < x.start[k] {
				records = append(records, x.decodeRecord(at, data[n*recordSize:]))
			}
		}
	}
	return records, true, nil
}
