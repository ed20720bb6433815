package gc

import (
	"cmp"
	"context"
	"hash/fnv"
	"iter"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume"
)

// ordered is an object of a volume, and by what it is put in order. It is kept
// small, as there is one for each object.
type ordered struct {
	name     uint32 // of the file or folder: in the order in which names are met, the kind in the upper bits
	path     uint32 // a hash of it
	position uint32 // in the file, in steps of 16 KiB; the number of the node in a folder
	turn     uint32 // when it was met: what commits of late have comes first
	volume   uint32
	index    uint32
}

const kindShift = 29 // of ordered.name

// orderer finds the order in which objects are stored best: by kind, then what
// has the same name next to each other, of that what has the same path, of a
// large file what lies at about the same place, and of that the newest first.
// Names are in the order in which a checkout comes to them. It looks at every
// node that roots lead to once, and is only a help: what cannot be read is
// passed over.
type orderer struct {
	*marker
	wanted map[int]bool // volumes whose objects are put in order
	seen   []keys.Set   // by number of the volume
	list   []ordered
	names  map[uint64]uint32
}

// order returns the places of what is needed in volumes, in the order in which
// it is to be stored.
func (m *marker) order(ctx context.Context, roots []Root, volumes []int) (iter.Seq2[int, int], error) {
	o := &orderer{marker: m, wanted: map[int]bool{}, names: map[uint64]uint32{}}
	for _, i := range volumes {
		o.wanted[i] = true
	}
	for i := range m.sweep.Len() {
		o.seen = append(o.seen, keys.NewSet(m.sweep.Volume(i).Objects))
	}
	if err := o.walk(ctx, roots); err != nil {
		return nil, err
	}
	slices.SortFunc(o.list, func(a, b ordered) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.path, b.path), cmp.Compare(a.position, b.position), cmp.Compare(a.turn, b.turn))
	})
	return func(yield func(int, int) bool) {
		for _, at := range o.list {
			if !yield(int(at.volume), int(at.index)) {
				return
			}
		}
	}, nil
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
	places, err := o.sweep.Find(key, o.places[:0])
	o.places = places
	if err != nil || len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool {
		return o.seen[p.Volume].Has(p.Index)
	}) {
		return false
	}
	for _, p := range places {
		o.seen[p.Volume].Add(p.Index)
	}
	i := slices.IndexFunc(places, func(p volume.Place) bool { return o.wanted[p.Volume] })
	if i < 0 {
		return true
	}
	name, ok := o.names[at.name]
	if !ok {
		name = uint32(min(len(o.names), 1<<kindShift-1))
		o.names[at.name] = name
	}
	o.list = append(o.list, ordered{
		name: uint32(key.Kind)<<kindShift | name, path: uint32(at.path >> 32),
		position: uint32(min(at.position, math.MaxUint32)), turn: uint32(len(o.list)),
		volume: uint32(places[i].Volume), index: uint32(places[i].Index),
	})
	return true
}

// dated is a commit.
type dated struct {
	id      object.ID
	seconds int64
}

// walk meets all that roots lead to, commits of late first.
func (o *orderer) walk(ctx context.Context, roots []Root) error {
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
func (o *orderer) commits(ctx context.Context, roots []Root) (commits []dated, rest []object.Key, err error) {
	seen := map[object.ID]bool{}
	var queue []object.Key
	for _, r := range roots {
		queue = append(queue, r.Key)
	}
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
			if tag, err := object.ReadTag(ctx, o.objects, key.ID); err == nil {
				queue = append(queue, object.Key{Kind: object.KindCommit, ID: tag.Target})
			}
		case key.Kind != object.KindCommit:
			rest = append(rest, key)
		case !seen[key.ID]:
			seen[key.ID] = true
			c, err := object.ReadCommit(ctx, o.objects, key.ID)
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
	c, err := object.ReadCommit(ctx, o.objects, id)
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
		if !o.records.Skips(from, key) {
			o.meet(key, at)
		}
	}
}

// tree meets a node of the folder at a spot, whose nodes it counts there.
func (o *orderer) tree(ctx context.Context, from, key object.Key, at *spot) {
	if ctx.Err() != nil || o.records.Skips(from, key) || !o.meet(key, *at) {
		return
	}
	t, err := object.ReadTree(ctx, o.objects, key.ID)
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
	if ctx.Err() != nil || o.records.Skips(from, key) || !o.meet(key, at) {
		return
	}
	m, err := object.ReadManifest(ctx, o.objects, key.ID)
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
