package transfer

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
)

// nodePacks are copies of the packs that hold nodes, as far as they were
// needed: a pack is taken in pieces of maxRead bytes, so most are taken whole.
// They lie in a file that goes when it is closed.
type nodePacks struct {
	get     func(ctx context.Context, p pack.Info, b []byte, off int64) (int, error)
	jobs    int
	file    *os.File // nil: pieces are kept in memory
	buffers sync.Pool
	values  *pack.Values // of these

	mu    sync.Mutex // guards the following
	packs map[pack.Name][]*piece
	end   int64 // of the file
}

// piece is a part of a pack.
type piece struct {
	pack  pack.Info
	off   int64 // in the pack
	size  int
	place int64 // in the file

	load sync.Once
	n    int    // bytes that are there, which may be too few
	data []byte // if there is no file
	err  error
}

// openNodePacks makes a file in dir, or none if dir is empty. Close it.
func openNodePacks(dir string, jobs int, get func(context.Context, pack.Info, []byte, int64) (int, error)) (*nodePacks, error) {
	n := &nodePacks{get: get, jobs: jobs, packs: map[pack.Name][]*piece{}}
	n.values = pack.NewValues(n.part, 0)
	if dir == "" {
		return n, nil
	}
	file, err := disk.CreateTemp(dir, "fetch-*")
	if err != nil {
		return nil, err
	}
	// Where a file can be used without a name, nothing is left if we are killed.
	disk.Remove(file.Name())
	n.file = file
	return n, nil
}

func (n *nodePacks) close() {
	if n.file != nil {
		n.file.Close()
		disk.Remove(n.file.Name())
	}
}

// pieces returns those in which the value of e lies, as far as there are any.
func (n *nodePacks) pieces(e pack.Entry) []*piece {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.packs[e.Pack.Name]
	if all == nil {
		for off := int64(0); off < int64(e.Pack.Size); off += maxRead {
			size := min(maxRead, int64(e.Pack.Size)-off)
			all = append(all, &piece{pack: e.Pack, off: off, size: int(size), place: n.end + off})
		}
		n.end += int64(e.Pack.Size)
		n.packs[e.Pack.Name] = all
	}
	// Two index files may say of one pack that it has another size.
	first, last := int64(e.Offset)/maxRead, (int64(e.Offset)+int64(e.Stored)-1)/maxRead
	there := int64(len(all))
	return all[min(first, there):min(last+1, there)]
}

// asked reports whether any of the pack of e was asked for.
func (n *nodePacks) asked(e pack.Entry) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packs[e.Pack.Name] != nil
}

// take reads the pieces of packs with the values of entries, several at once. The function
// value returns the errors.
func (n *nodePacks) take(ctx context.Context, entries []pack.Entry) {
	var group errgroup.Group
	group.SetLimit(n.jobs)
	asked := map[*piece]bool{}
	for _, e := range entries {
		for _, p := range n.pieces(e) {
			if !asked[p] {
				asked[p] = true
				group.Go(func() error { p.load.Do(func() { n.load(ctx, p) }); return nil })
			}
		}
	}
	group.Wait()
}

// load reads a piece.
func (n *nodePacks) load(ctx context.Context, p *piece) {
	if n.file == nil {
		p.data = make([]byte, p.size)
		p.n, p.err = n.get(ctx, p.pack, p.data, p.off)
		return
	}
	buf, ok := n.buffers.Get().(*[]byte)
	if !ok || len(*buf) < p.size {
		buf = new([]byte)
		*buf = make([]byte, p.size)
	}
	defer n.buffers.Put(buf)
	if p.n, p.err = n.get(ctx, p.pack, (*buf)[:p.size], p.off); p.err == nil {
		_, p.err = n.file.WriteAt((*buf)[:p.n], p.place)
	}
}

// value returns the stored value of e, which take has read. It is not verified.
// A value that is not there whole is a [*shortError].
func (n *nodePacks) value(e pack.Entry) ([]byte, error) {
	value := make([]byte, 0, e.Stored)
	off := int64(e.Offset)
	for _, p := range n.pieces(e) {
		if p.err != nil {
			return nil, p.err
		}
		at := off - p.off
		part := value[len(value):min(len(value)+int(max(int64(p.size)-at, 0)), cap(value))]
		switch {
		case at+int64(len(part)) > int64(p.n):
			return nil, &shortError{e.Pack, p.off + int64(p.n)}
		case n.file == nil:
			copy(part, p.data[at:])
		default:
			if _, err := n.file.ReadAt(part, p.place+at); err != nil {
				return nil, fmt.Errorf("read a pack again: %w", err)
			}
		}
		value = value[:len(value)+len(part)]
		off += int64(len(part))
	}
	if len(value) < int(e.Stored) {
		return nil, &shortError{e.Pack, off}
	}
	return value, nil
}

// part reads a part of a pack, and takes its pieces first if need be. It is a
// [pack.Getter].
func (n *nodePacks) part(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	e := pack.Entry{Pack: p, Offset: uint32(off), Stored: uint32(len(b))}
	n.take(ctx, []pack.Entry{e})
	value, err := n.value(e)
	return copy(b, value), err
}

// shortError says that a pack is shorter than it was.
type shortError struct {
	pack pack.Info
	end  int64
}

func (e *shortError) Error() string {
	return fmt.Sprintf("the pack ends after %d of %d bytes", e.end, e.pack.Size)
}
