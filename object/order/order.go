// Package order tells in which order objects are stored best, so that what is
// alike comes near each other and what is read together lies together.
package order

import (
	"cmp"
	"context"
	"hash/fnv"
	"iter"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Walk says what is put in order, and how that is found.
type Walk struct {
	// Objects has the nodes. What it cannot read is passed over.
	Objects object.Reader

	// Skips reports whether a link is not followed; a root is a link from the
	// zero key.
	Skips func(from, link object.Key) bool

	// Meet is told of each object that is come to. It reports whether that is for
	// the first time: otherwise what it leads to is not looked at again. If the
	// object is one that is to be put in order, wanted is true, and place is what
	// it is called in the result.
	Meet func(key object.Key) (place uint64, wanted, first bool)
}

// Objects returns the places of what roots lead to and is wanted, in the order
// in which it is to be stored: by kind, then what has the same name next to each
// other, of that what has the same path, of a large file what lies at about the
// same place, and of that the newest first. Names are in the order in which a
// checkout comes to them. It looks at every node once, and is only a help: the
// error is that of ctx. It takes 24 bytes for each object that is wanted.
func Objects(ctx context.Context, roots []object.Key, w Walk) (iter.Seq[uint64], error) {
	o := &orderer{Walk: w, names: map[uint64]uint32{}}
	if err := o.walk(ctx, roots); err != nil {
		return nil, err
	}
	slices.SortFunc(o.list, func(a, b ordered) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.path, b.path), cmp.Compare(a.position, b.position), cmp.Compare(a.turn, b.turn))
	})
	return func(yield func(uint64) bool) {
		for _, at := range o.list {
			if !yield(at.place) {
				return
			}
		}
	}, nil
}

// ordered is an object, and by what it is put in order. It is kept small, as
// there is one for each object.
type ordered struct {
	place    uint64
	name     uint32 // of the file or folder: in the order in which names are met, the kind in the upper bits
	path     uint32 // a hash of it
	position uint32 // in the file, in steps of 16 KiB; the number of the node in a folder
	turn     uint32 // when it was met: what commits of late have comes first
}

const kindShift = 29 // of ordered.name

// orderer is one call of Objects.
type orderer struct {
	Walk
	list  []ordered
	names map[uint64]uint32
}

// spot is where in the history an object is.
type spot struct {
	name     uint64 // a hash of the file's or folder's name
	path     uint64 // a hash of its path
	position uint64
}

// below returns the spot of an entry of a folder.
func (s spot) below(name string) spot {
	h := fnv.New64a()
	h.Write([]byte(name))
	below := spot{name: h.Sum64()}
	below.path = (s.path ^ below.name) * 0x100000001b3
	return below
}

// meet notes an object, and reports whether it was met for the first time.
func (o *orderer) meet(key object.Key, at spot) bool {
	place, wanted, first := o.Meet(key)
	if !first || !wanted {
		return first
	}
	name, ok := o.names[at.name]
	if !ok {
		name = uint32(min(len(o.names), 1<<kindShift-1))
		o.names[at.name] = name
	}
	o.list = append(o.list, ordered{
		name: uint32(key.Kind)<<kindShift | name, path: uint32(at.path >> 32),
		position: uint32(min(at.position, math.MaxUint32)), turn: uint32(len(o.list)), place: place,
	})
	return true
}

// dated is a commit.
type dated struct {
	id      object.ID
	seconds int64
}

// walk meets all that roots lead to, commits of late first.
func (o *orderer) walk(ctx context.Context, roots []object.Key) error {
	commits, rest, err := o.commits(ctx, roots)
	if err != nil {
		return err
	}
	for _, c := range commits {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.commit(ctx, c.id)
	}
	for _, key := range rest {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.content(ctx, object.Key{}, key, spot{})
	}
	return ctx.Err()
}

// commits returns the commits that roots lead to, the newest first, and the
// roots that are something else.
func (o *orderer) commits(ctx context.Context, roots []object.Key) (commits []dated, rest []object.Key, err error) {
	seen := map[object.ID]bool{}
	queue := slices.Clone(roots)
	for len(queue) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		switch {
		case key.Kind == object.KindTag:
			if !o.meet(key, spot{}) {
				continue
			}
			if tag, err := object.ReadTag(ctx, o.Objects, key.ID); err == nil {
				queue = append(queue, object.Key{Kind: object.KindCommit, ID: tag.Target})
			}
		case key.Kind != object.KindCommit:
			rest = append(rest, key)
		case !seen[key.ID]:
			seen[key.ID] = true
			c, err := object.ReadCommit(ctx, o.Objects, key.ID)
			if err != nil {
				continue
			}
			commits = append(commits, dated{key.ID, c.Committer.Time.Sec})
			for _, parent := range c.Parents {
				queue = append(queue, object.Key{Kind: object.KindCommit, ID: parent})
			}
		}
	}
	slices.SortFunc(commits, func(a, b dated) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), slices.Compare(a.id[:], b.id[:]))
	})
	return commits, rest, nil
}

// commit meets a commit and its worktree.
func (o *orderer) commit(ctx context.Context, id object.ID) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	c, err := object.ReadCommit(ctx, o.Objects, id)
	if err != nil || !o.meet(key, spot{}) {
		return
	}
	o.content(ctx, key, object.Key{Kind: object.KindTree, ID: c.Tree}, spot{})
	if !c.SkippedRest.IsZero() {
		o.content(ctx, key, object.Key{Kind: object.KindChunk, ID: c.SkippedRest}, spot{})
	}
}

// content meets the root of a folder or of a file's content, and what is below.
func (o *orderer) content(ctx context.Context, from, key object.Key, at spot) {
	switch key.Kind {
	case object.KindTree:
		o.tree(ctx, from, key, &at)
	case object.KindManifest:
		o.manifest(ctx, from, key, at, 0)
	default:
		if !o.Skips(from, key) {
			o.meet(key, at)
		}
	}
}

// tree meets a node of the folder at a spot, whose nodes it counts there.
func (o *orderer) tree(ctx context.Context, from, key object.Key, at *spot) {
	if ctx.Err() != nil || o.Skips(from, key) || !o.meet(key, *at) {
		return
	}
	t, err := object.ReadTree(ctx, o.Objects, key.ID)
	if err != nil {
		return
	}
	for _, child := range t.Children {
		at.position++
		o.tree(ctx, key, object.Key{Kind: object.KindTree, ID: child.ID}, at)
	}
	for _, e := range t.Entries {
		if e.Content.Kind != 0 {
			o.content(ctx, key, e.Content, at.below(e.Name))
		}
	}
}

// manifest meets a node of a file's list of chunks, of what begins at offset.
func (o *orderer) manifest(ctx context.Context, from, key object.Key, at spot, offset uint64) {
	at.position = offset >> 14
	if ctx.Err() != nil || o.Skips(from, key) || !o.meet(key, at) {
		return
	}
	m, err := object.ReadManifest(ctx, o.Objects, key.ID)
	if err != nil {
		return
	}
	pos := offset
	for _, c := range m.Chunks {
		at.position = pos >> 14
		o.content(ctx, key, object.Key{Kind: object.KindChunk, ID: c.ID}, at)
		pos += uint64(c.Size)
	}
	pos = offset
	for _, c := range m.Children {
		o.manifest(ctx, key, object.Key{Kind: object.KindManifest, ID: c.ID}, at, pos)
		pos = offset + c.End
	}
}
