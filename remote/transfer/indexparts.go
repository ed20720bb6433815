package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

const (
	// CopiedIndexes is how many bytes of index files are copied in full.
	CopiedIndexes = 64 << 20

	requestCost = 64 << 10 // bytes that arrive in the time of a request
	maxPartRead = 4 << 20  // bytes of parts that are read at once
	maxInMemory = 8 << 20  // bytes of parts in memory, without a copy
	firstHead   = 2 << 10  // bytes of the beginning that are read with the end: the table of 100 packs
	partsSuffix = ".parts" // of a sparse copy
)

// indexParts reads parts of an index file, and keeps them in a sparse copy: a file of the same
// size with holes. The copy has no list of its holes: a block has a checksum, and no piece of a table has zeros. So it is
// never wrong, however it was interrupted, and several processes may write to it at once. It is safe for concurrent use.
type indexParts struct {
	*pack.IndexParts
	r    *IndexFiles
	file rootlog.File
	copy *os.File     // nil: parts are in memory
	cost atomic.Int64 // of the requests so far, in bytes

	mu      sync.Mutex // guards the following
	memory  map[keys.Part][]byte
	size    int        // of memory, in bytes
	inWhole *IndexFile // the complete copy, once it was made
}

// openParts opens an index file in parts.
func (r *IndexFiles) openParts(ctx context.Context, f rootlog.File) (*indexParts, error) {
	x := &indexParts{r: r, file: f, memory: map[keys.Part][]byte{}}
	x.copy = r.openSparse(f)
	if x.copy != nil && x.open(ctx, func(p []byte, off int64) error { return readAllAt(x.copy, p, off) }) == nil {
		return x, nil
	}
	err := retry.Verified(func() error {
		return x.open(ctx, func(p []byte, off int64) error {
			err := x.fetch(ctx, p, off)
			if err == nil {
				x.keep(p, off)
			}
			return err
		})
	})
	if err != nil {
		x.close()
		return nil, fmt.Errorf("%s: %w", f.Name.IndexPath(), err)
	}
	return x, nil
}

// openSparse opens the sparse copy of an index file, and makes it if there is none. It returns nil if it cannot.
func (r *IndexFiles) openSparse(f rootlog.File) *os.File {
	if r.o.Dir == "" || disk.MkdirAll(r.copiesDir(), 0o777) != nil {
		return nil
	}
	file, err := disk.OpenFile(r.copyOf(f.Name)+partsSuffix, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err == nil && info.Size() != f.Size {
		err = file.Truncate(f.Size)
	}
	if err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil
	}
	return file
}

// open reads the ends of the file by read, both at once.
func (x *indexParts) open(ctx context.Context, read func(p []byte, off int64) error) error {
	if x.file.Size <= pack.IndexTail {
		return errDamaged(x.file.Name.IndexPath(), fmt.Errorf("%d bytes are too few", x.file.Size))
	}
	head, tail := make([]byte, min(firstHead, x.file.Size-pack.IndexTail)), make([]byte, pack.IndexTail)
	err := Parallel(ctx, x.r.o.Jobs, 2, func(_ context.Context, i int) error {
		if i == 0 {
			return read(tail, x.file.Size-pack.IndexTail)
		}
		return read(head, 0)
	})
	if err != nil {
		return err
	}

	size, err := pack.IndexHead(tail, x.file.Size)
	if err != nil {
		return err
	}
	head = head[:min(int64(len(head)), size)]
	for int64(len(head)) < size { // grows with what there is, whatever the tail says
		n := len(head)
		head = append(head, make([]byte, min(size-int64(n), pieceSize))...)
		if err := read(head[n:], int64(n)); err != nil {
			return err
		}
	}
	x.IndexParts, err = pack.OpenIndexParts(head, tail, x.file.Size, x.readParts)
	return err
}

// readAllAt fills p from off.
func readAllAt(f *os.File, p []byte, off int64) error {
	_, err := f.ReadAt(p, off)
	return err
}

// fetch fills p from the remote.
func (x *indexParts) fetch(ctx context.Context, p []byte, off int64) error {
	name := x.file.Name.IndexPath()
	x.cost.Add(requestCost + int64(len(p)))
	n, err := x.r.b.Get(ctx, name, p, off)
	if err == nil && n < len(p) {
		err = errDamaged(name, fmt.Errorf("ends after %d of %d bytes", off+int64(n), x.file.Size))
	}
	return err
}

// keep writes bytes of the remote into the copy. If it cannot, they are read again.
func (x *indexParts) keep(p []byte, off int64) {
	if x.copy != nil {
		x.copy.WriteAt(p, off)
	}
}

// readParts is the [keys.PartReader].
func (x *indexParts) readParts(ctx context.Context, parts []keys.Part) ([][]byte, error) {
	pieces := make([][]byte, len(parts))
	var runs [][]int // neighbours that are not here
	var end int64    // of the last run
	for i, p := range parts {
		if pieces[i] = x.kept(p); pieces[i] != nil {
			continue
		}
		after := p.Off + int64(p.Size)
		if n := len(runs); n > 0 && p.Off-end <= requestCost && max(end, after)-parts[runs[n-1][0]].Off <= maxPartRead {
			runs[n-1] = append(runs[n-1], i)
			end = max(end, after)
		} else {
			runs, end = append(runs, []int{i}), after
		}
	}

	return pieces, Parallel(ctx, x.r.o.Jobs, len(runs), func(ctx context.Context, n int) error {
		return x.fetchRun(ctx, parts, runs[n], pieces)
	})
}

// fetchRun fetches neighbours.
func (x *indexParts) fetchRun(ctx context.Context, parts []keys.Part, run []int, pieces [][]byte) error {
	start, end := parts[run[0]].Off, int64(0)
	for _, i := range run {
		end = max(end, parts[i].Off+int64(parts[i].Size))
	}

	err := retry.Verified(func() error {
		buf := make([]byte, end-start)
		if err := x.fetch(ctx, buf, start); err != nil {
			return err
		}
		for _, i := range run {
			pieces[i] = buf[parts[i].Off-start:][:parts[i].Size]
			if err := parts[i].Check(pieces[i]); err != nil {
				return errDamaged(x.file.Name.IndexPath(), err)
			}
		}
		x.keep(buf, start)
		return nil
	})
	if err == nil && x.copy == nil {
		x.remember(parts, run, pieces)
	}
	return err
}

// remember keeps parts in memory.
func (x *indexParts) remember(parts []keys.Part, run []int, pieces [][]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, i := range run {
		if x.size += parts[i].Size; x.size > maxInMemory {
			x.memory, x.size = map[keys.Part][]byte{}, parts[i].Size
		}
		x.memory[parts[i]] = pieces[i]
	}
}

// kept returns a part that was read before, or nil.
func (x *indexParts) kept(p keys.Part) []byte {
	if x.copy == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.memory[p]
	}
	piece := make([]byte, p.Size)
	if readAllAt(x.copy, piece, p.Off) != nil || p.IsHole(piece) {
		return nil
	}
	return piece
}

// find returns an entry for each of keys, which are sorted. It reads the parts or, if that is cheaper or the
// parts are damaged, the complete file.
func (x *indexParts) find(ctx context.Context, keys []object.Key) ([]pack.Entry, error) {
	whole := x.whole()
	if whole == nil && !x.isDear(len(keys)) {
		entries, err := x.IndexParts.Find(ctx, keys)
		if !IsBadCopy(err) && !errors.Is(err, pack.ErrDamaged) || x.r.o.Dir == "" {
			return entries, err
		}
	}
	if whole == nil {
		var err error
		if whole, err = x.copyWhole(ctx); err != nil {
			return nil, err
		}
	}

	entries := make([]pack.Entry, len(keys))
	for i, key := range keys {
		var err error
		if entries[i], _, err = whole.Find(key); err != nil {
			return nil, x.r.damagedCopy(x.file, whole, err)
		}
	}
	return entries, nil
}

// isDear reports whether the look-ups of n keys, and those before, cost more than a quarter of the complete file. So the
// file is copied before look-ups have cost much, even if the caller goes on for long. A file that would have to be in
// memory is not copied.
func (x *indexParts) isDear(n int) bool {
	return x.r.o.Dir != "" && x.cost.Load()+int64(n)*2*requestCost > x.file.Size/4+8*requestCost
}

// whole returns the complete copy, or nil.
func (x *indexParts) whole() *IndexFile {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.inWhole
}

// copyWhole makes the complete copy, which replaces the sparse one.
func (x *indexParts) copyWhole(ctx context.Context) (*IndexFile, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inWhole != nil {
		return x.inWhole, nil
	}
	whole, err := x.r.openFile(ctx, x.file)
	if err != nil {
		return nil, err
	}
	x.inWhole = whole
	x.r.removeCopy(x.r.copyOf(x.file.Name) + partsSuffix)
	return whole, nil
}

func (x *indexParts) close() {
	if x.copy != nil {
		x.copy.Close()
	}
	if x.inWhole != nil {
		x.inWhole.closeCopy()
	}
}
