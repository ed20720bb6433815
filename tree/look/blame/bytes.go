package blame

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Range is a run of bytes with one origin.
type Range struct {
	Offset, Size uint64
	Origin       *Origin
}

// ByBytes returns the origins of the bytes of a file, in whole chunks and in order. It reads
// lists of chunks, no content. A range belongs to the oldest version in an unbroken line of
// versions with its chunk, wherever the chunk is in them. A list that is lost or purged ends the
// history.
func ByBytes(ctx context.Context, r *kist.Repository, f *File, o Options) ([]Range, error) {
	h := newHistory(r, f, &o)
	n := h.startNode()
	if n == nil {
		return nil, &tree.PathError{Path: f.Path, Err: tree.ErrNotExist}
	}
	if f.Entry.Size == 0 {
		return nil, nil
	}

	c := chunkSets{number: map[object.ID]int{}, lists: map[object.ID]*chunkList{}}
	ranges, err := c.numberChunks(ctx, f)
	if err != nil {
		return nil, err
	}
	n.chunks = make([]uint64, len(c.number)/64+1)
	for _, i := range c.number {
		n.chunks[i/64] |= 1 << (i % 64)
	}

	origins := make([]*Origin, len(c.number))
	for ; n != nil; n = h.nextNode() {
		if n.chunks == nil {
			continue
		}
		if err := h.passChunks(ctx, n, &c); err != nil {
			return nil, err
		}
		for i := range origins {
			if n.chunks[i/64]&(1<<(i%64)) != 0 {
				origins[i] = &n.Origin
			}
		}
		n.chunks = nil
	}
	return joinRanges(ranges, origins), nil
}

// numbered is a range of the blamed file, and the number of its chunk.
type numbered struct {
	Range
	chunk int
}

func joinRanges(list []numbered, origins []*Origin) (out []Range) {
	for _, r := range list {
		r.Origin = origins[r.chunk]
		if n := len(out); n > 0 && out[n-1].Origin == r.Origin {
			out[n-1].Size += r.Size
			continue
		}
		out = append(out, r.Range)
	}
	return out
}

// passChunks gives the pending chunks of n to the versions before it that have them.
func (h *lineage) passChunks(ctx context.Context, n *node, c *chunkSets) error {
	before, err := h.earlierNodes(ctx, n)
	if err != nil {
		return err
	}
	for _, b := range before {
		e := b.version.Entry() // a small file has its hash as chunk
		has := make([]uint64, len(n.chunks))
		err := c.markChunks(ctx, h.r.Contents(), e, has)
		if object.PassOverContent(h.r.Contents(), b.Path, e.Content, err) {
			continue
		}
		if err != nil {
			return &tree.PathError{Path: b.Path, Err: err}
		}
		if b.chunks == nil {
			b.chunks = make([]uint64, len(n.chunks))
		}
		for i := range has {
			b.chunks[i] |= n.chunks[i] & has[i]
			n.chunks[i] &^= has[i]
		}
	}
	return nil
}

// chunkSets finds the chunks of the blamed file in other versions. It keeps a short form of each
// list node, which most versions share.
type chunkSets struct {
	number map[object.ID]int // of the chunks of the blamed file
	lists  map[object.ID]*chunkList
}

// chunkList is a list node.
type chunkList struct {
	children []object.ID
	chunks   []int // those of the blamed file, by number
}

// numberChunks numbers the chunks of the blamed file.
func (c *chunkSets) numberChunks(ctx context.Context, f *File) (ranges []numbered, err error) {
	add := func(id object.ID, off, size uint64) {
		i, known := c.number[id]
		if !known {
			i = len(c.number)
			c.number[id] = i
		}
		ranges = append(ranges, numbered{Range{Offset: off, Size: size}, i})
	}
	if f.Entry.Content.Kind != object.KindManifest {
		add(tree.ContentID(&f.Entry), 0, f.Entry.Size)
		return ranges, nil
	}
	for chunk, err := range object.Chunks(ctx, f.View.Objects, f.Entry.Content, f.Entry.Size, 0) {
		if err != nil {
			return nil, &tree.PathError{Path: f.Path, Err: err}
		}
		add(chunk.ID, chunk.Offset, uint64(chunk.Size))
	}
	return ranges, nil
}

// markChunks sets the bits of the chunks that an entry has.
func (c *chunkSets) markChunks(ctx context.Context, r object.Reader, e object.Entry, has []uint64) error {
	set := func(i int) { has[i/64] |= 1 << (i % 64) }
	if e.Content.Kind != object.KindManifest {
		if i, ok := c.number[e.Content.ID]; ok {
			set(i)
		}
		return nil
	}
	todo := []object.ID{e.Content.ID}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		list := c.lists[id]
		if list == nil {
			m, err := object.ReadManifest(ctx, r, id)
			if err != nil {
				return err
			}
			list = &chunkList{}
			for _, child := range m.Children {
				list.children = append(list.children, child.ID)
			}
			for _, chunk := range m.Chunks {
				if i, ok := c.number[chunk.ID]; ok {
					list.chunks = append(list.chunks, i)
				}
			}
			c.lists[id] = list
		}
		todo = append(todo, list.children...)
		for _, i := range list.chunks {
			set(i)
		}
	}
	return nil
}
