package repack

import (
	"cmp"
	"context"
	"hash/fnv"
	"iter"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// OrderOptions are the inputs of [Order].
type OrderOptions struct {
	// Nodes reads nodes. Order skips a node that it cannot read.
	Nodes object.Reader

	// Skips reports whether Order ignores a link. A root is a link from
	// the zero key.
	Skips func(from, link object.Key) bool

	// Meet is called for each object that a link leads to. First is true at the
	// first call for the object: then Order follows its links. Wanted is true if the
	// object belongs into the result, under the number place.
	Meet func(key object.Key) (place uint64, wanted, first bool)
}

// Order returns the places of the wanted objects that are reachable from roots, in
// the best order to store them: similar objects, and objects that are read
// together, come near each other. They are sorted by kind, then by name, then by
// path, then by the position in a large file, and the newest comes first. Names
// come in the order of a checkout.
//
// Order reads each commit twice, and other nodes once. An order is only a hint, so the only
// error is that of ctx. Order takes 24 bytes of memory for each wanted object.
func Order(ctx context.Context, roots []object.Key, options OrderOptions) (iter.Seq[uint64], error) {
	o := &orderer{OrderOptions: options, names: map[uint64]uint32{}}
	if err := o.meetReachable(ctx, roots); err != nil {
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

// ordered is an object with its sort keys. It is small, because there is one for
// each object.
type ordered struct {
	place    uint64
	name     uint32 // number of the file's or directory's name, by first use; the kind in the upper bits
	path     uint32 // a hash of the path
	position uint32 // in the file, in steps of 16 KiB; in a directory, the number of the node
	turn     uint32 // number of the object, by first use: objects of recent commits come first
}

const kindShift = 29 // of ordered.name

// orderer is one call of Order.
type orderer struct {
	OrderOptions
	list  []ordered
	names map[uint64]uint32
}

// spot is the place of an object in the history.
type spot struct {
	name     uint64 // a hash of the file's or directory's name
	path     uint64 // a hash of its path
	position uint64
}

// entrySpot returns the spot of an entry of the directory at s.
func (s spot) entrySpot(name string) spot {
	h := fnv.New64a()
	h.Write([]byte(name))
	below := spot{name: h.Sum64()}
	below.path = (s.path ^ below.name) * 0x100000001b3
	return below
}

// meetObject lists an object if it is wanted, and reports whether this is its first use.
func (o *orderer) meetObject(key object.Key, at spot) bool {
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

// dated is a commit and its time, in seconds since 1970.
type dated struct {
	id      object.ID
	seconds int64
}

// meetReachable meets all objects that are reachable from roots, newest commits first.
func (o *orderer) meetReachable(ctx context.Context, roots []object.Key) error {
	commits, rest, err := o.listCommits(ctx, roots)
	if err != nil {
		return err
	}
	for _, c := range commits {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.meetCommit(ctx, c.id)
	}
	for _, key := range rest {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.meetContent(ctx, object.Key{}, key, spot{})
	}
	return ctx.Err()
}

// listCommits returns the commits that are reachable from roots, the newest first, and
// the roots that are neither commits nor tags.
func (o *orderer) listCommits(ctx context.Context, roots []object.Key) (commits []dated, rest []object.Key, err error) {
	err = graph.Walk(ctx, map[object.Key]bool{}, roots, func(key object.Key) ([]object.Key, error) {
		switch key.Kind {
		case object.KindTag:
			if !o.meetObject(key, spot{}) {
				return nil, nil
			}
			links, _ := graph.Links(ctx, o.Nodes, key)
			return links, nil
		case object.KindCommit:
			c, err := object.ReadCommit(ctx, o.Nodes, key.ID)
			if err != nil {
				return nil, nil
			}
			commits = append(commits, dated{key.ID, c.Committer.Time.Sec})
			var parents []object.Key
			for _, parent := range c.Parents {
				parents = append(parents, object.Key{Kind: object.KindCommit, ID: parent})
			}
			return parents, nil
		}
		rest = append(rest, key)
		return nil, nil
	})
	if err != nil {
		return nil, nil, err
	}

	slices.SortFunc(commits, func(a, b dated) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), slices.Compare(a.id[:], b.id[:]))
	})
	return commits, rest, nil
}

// meetCommit meets a commit and its content.
func (o *orderer) meetCommit(ctx context.Context, id object.ID) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	c, err := object.ReadCommit(ctx, o.Nodes, id)
	if err != nil || !o.meetObject(key, spot{}) {
		return
	}
	o.meetContent(ctx, key, object.Key{Kind: object.KindTree, ID: c.Tree}, spot{})
	if !c.SkippedRest.IsZero() {
		o.meetContent(ctx, key, object.Key{Kind: object.KindChunk, ID: c.SkippedRest}, spot{})
	}
}

// meetContent meets the root of a directory or of a file's content, and everything below.
func (o *orderer) meetContent(ctx context.Context, from, key object.Key, at spot) {
	switch key.Kind {
	case object.KindTree:
		o.meetTree(ctx, from, key, &at)
	case object.KindManifest:
		o.meetManifest(ctx, from, key, at, 0)
	default:
		if !o.Skips(from, key) {
			o.meetObject(key, at)
		}
	}
}

// meetTree meets a node of the directory at a spot, and counts the nodes there. It recurses
// instead of using package graph, because the spot of an object is its sort key.
func (o *orderer) meetTree(ctx context.Context, from, key object.Key, at *spot) {
	if ctx.Err() != nil || o.Skips(from, key) || !o.meetObject(key, *at) {
		return
	}
	t, err := object.ReadTree(ctx, o.Nodes, key.ID)
	if err != nil {
		return
	}
	for _, child := range t.Children {
		at.position++
		o.meetTree(ctx, key, object.Key{Kind: object.KindTree, ID: child.ID}, at)
	}
	for _, e := range t.Entries {
		if e.Content.Kind != 0 {
			o.meetContent(ctx, key, e.Content, at.entrySpot(e.Name))
		}
	}
}

// meetManifest meets a node of a file's list of chunks. Its content begins at offset.
func (o *orderer) meetManifest(ctx context.Context, from, key object.Key, at spot, offset uint64) {
	at.position = offset >> 14
	if ctx.Err() != nil || o.Skips(from, key) || !o.meetObject(key, at) {
		return
	}
	m, err := object.ReadManifest(ctx, o.Nodes, key.ID)
	if err != nil {
		return
	}

	pos := offset
	for _, c := range m.Chunks {
		at.position = pos >> 14
		o.meetContent(ctx, key, object.Key{Kind: object.KindChunk, ID: c.ID}, at)
		pos += uint64(c.Size)
	}
	pos = offset
	for _, c := range m.Children {
		o.meetManifest(ctx, key, object.Key{Kind: object.KindManifest, ID: c.ID}, at, pos)
		pos = offset + c.End
	}
}
