package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
)

// NodePacks are copies of the packs with nodes. They have only the pieces, of MaxRead
// bytes, that were needed. Most packs are a single piece. The copies lie in a temporary
// file, which is removed when it is closed, or in memory if the file system is read-only.
type NodePacks struct {
	get     func(ctx context.Context, p pack.Info, b []byte, off int64) (int, error)
	jobs    int
	file    *os.File // nil: the pieces are in memory
	buffers sync.Pool
	Values  *pack.Values // of these

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
	n    int    // bytes that were read; fewer than size if the pack is too short
	data []byte // of these, without a file
	err  error
}

// OpenNodePacks makes the file in dir. The caller closes the result. If dir is empty, the
// error is errNoFolder.
func OpenNodePacks(dir string, jobs int, get func(context.Context, pack.Info, []byte, int64) (int, error)) (*NodePacks, error) {
	if dir == "" {
		return nil, errNoFolder
	}
	file, err := disk.CreateTemp(dir, "fetch-*")
	if errors.Is(err, syscall.EROFS) {
		file, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if file != nil { // where systems allow it, the open file has no name, so a kill leaves nothing
		disk.Remove(file.Name())
	}

	n := &NodePacks{get: get, jobs: jobs, file: file, packs: map[pack.Name][]*piece{}}
	n.Values = pack.NewValues(n.ReadPart, 0)
	return n, nil
}

func (n *NodePacks) Close() {
	if n.file == nil {
		return
	}
	n.file.Close()
	disk.Remove(n.file.Name())
}

// piecesOf returns the pieces in which the value of e lies. A value beyond the end of the
// pack has none.
func (n *NodePacks) piecesOf(e pack.Entry) []*piece {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.packs[e.Pack.Name]
	if all == nil {
		for off := int64(0); off < int64(e.Pack.Size); off += MaxRead {
			size := min(MaxRead, int64(e.Pack.Size)-off)
			all = append(all, &piece{pack: e.Pack, off: off, size: int(size), place: n.end + off})
		}
		n.end += int64(e.Pack.Size)
		n.packs[e.Pack.Name] = all
	}
	// Two index files may have different sizes for one pack.
	first, last := int64(e.Offset)/MaxRead, (int64(e.Offset)+int64(e.Stored)-1)/MaxRead
	there := int64(len(all))
	return all[min(first, there):min(last+1, there)]
}

// IsPackOpened reports whether a piece of the pack of e was asked for.
func (n *NodePacks) IsPackOpened(e pack.Entry) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packs[e.Pack.Name] != nil
}

// LoadValues reads the pieces of packs with the values of entries, several at once. StoredValue
// returns the errors.
func (n *NodePacks) LoadValues(ctx context.Context, entries []pack.Entry) {
	var group errgroup.Group
	group.SetLimit(n.jobs)
	asked := map[*piece]bool{}
	for _, e := range entries {
		for _, p := range n.piecesOf(e) {
			if !asked[p] {
				asked[p] = true
				group.Go(func() error { p.load.Do(func() { n.loadPiece(ctx, p) }); return nil })
			}
		}
	}
	group.Wait()
}

// loadPiece reads a piece.
func (n *NodePacks) loadPiece(ctx context.Context, p *piece) {
	buf, ok := n.buffers.Get().(*[]byte)
	if !ok || len(*buf) < p.size {
		buf = new([]byte)
		*buf = make([]byte, p.size)
	}
	defer n.buffers.Put(buf)
	p.n, p.err = n.get(ctx, p.pack, (*buf)[:p.size], p.off)
	switch {
	case p.err != nil:
	case n.file == nil:
		p.data = bytes.Clone((*buf)[:p.n])
	default:
		_, p.err = n.file.WriteAt((*buf)[:p.n], p.place)
	}
}

// StoredValue returns the stored value of e, which LoadValues has read. It does not verify it.
// If the pack ends within the value, the error matches [remote.ErrDamaged].
func (n *NodePacks) StoredValue(e pack.Entry) ([]byte, error) {
	value := make([]byte, 0, e.Stored)
	off := int64(e.Offset)
	for _, p := range n.piecesOf(e) {
		if p.err != nil {
			return nil, p.err
		}
		at := off - p.off
		part := value[len(value):min(len(value)+int(max(int64(p.size)-at, 0)), cap(value))]
		switch {
		case at+int64(len(part)) > int64(p.n):
			return nil, ErrShortPack(e.Pack, p.off+int64(p.n))
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
		return nil, ErrShortPack(e.Pack, off)
	}
	return value, nil
}

// ReadPart reads a part of a pack. It first reads the missing pieces from the remote. It is a
// [pack.Getter].
func (n *NodePacks) ReadPart(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	e := pack.Entry{Pack: p, Offset: uint32(off), Stored: uint32(len(b))}
	n.LoadValues(ctx, []pack.Entry{e})
	value, err := n.StoredValue(e)
	return copy(b, value), err
}
