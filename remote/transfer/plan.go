package transfer

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// Local is a repository's object store, as a push reads it. It is safe for
// concurrent use. [github.com/kist-vcs/kist/object/volume.Store] is one.
type Local interface {
	object.Reader

	// GetStored returns an object's stored value (package object/frame), which
	// was verified, and how many bytes the object has. The value lies in dst's
	// storage if that is large enough.
	GetStored(ctx context.Context, key object.Key, dst []byte) (value []byte, raw int, err error)

	// StoredSize returns how many bytes an object has, and its stored value,
	// or an [*object.AbsentError].
	StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error)
}

// AwayKnower is a [Local] whose Get fetches objects from a remote.
type AwayKnower interface {
	// IsAway reports whether an object is not here, because a remote has promised to keep it.
	IsAway(ctx context.Context, key object.Key) (bool, error)
}

// plan has the objects that a push has to send. They are neither in live(S) nor in its own
// packs that were sent already. A push sends the first ones while it looks for the others.
type plan struct {
	nodes, chunks queue
	objects       int64 // planned so far
	bytes         int64 // stored, in all of them
	packs         int
	kept          map[pack.Name]*sentPack
	commits       map[object.ID]bool  // that the remote will have, with all they need
	lost          map[object.Key]bool // neither here nor there, and to be listed as lost
}

// queue has planned objects that are not being sent yet, in the order of the walk.
type queue struct {
	items []item
	room  int  // of all these
	begun bool // others were sent
}

func (q *queue) add(it item) {
	q.items = append(q.items, it)
	q.room += it.packRoom()
}

// takeFull removes the objects for a full pack from the queue, if enough remain for a full pack of
// each other job. Otherwise it returns none.
func (q *queue) takeFull(b remote.Backend, jobs int) []item {
	if q.room < jobs*pack.TargetSize {
		return nil
	}
	batch := CutBatches(q.items, PackSizesFor(b, pack.TargetSize), item.packRoom)[0]
	q.items, q.begun = q.items[len(batch):], true
	for _, it := range batch {
		q.room -= it.packRoom()
	}
	return batch
}

// item is an object to be sent.
type item struct {
	key    object.Key
	stored uint32 // bytes of its stored value
}

// packRoom returns about how many bytes of a pack an item takes, and no fewer.
func (it item) packRoom() int { return int(it.stored) + EntryRoom }

// planner plans a push against one snapshot, S. It implements [ends]: the repository is
// the giver. As in docs/format/remote.md, S is the head that a push or a collection relies
// on. S0 is the head at which it began to send its own files.
type planner struct {
	*push
	plan *plan
	send func(batch []item) error
	away AwayKnower // nil: everything is here, or must be fetched to be sent
}

// newPlan finds the wanted objects that the remote does not have at S. While there are many, it already
// calls send with those for a full pack. After is the view
// of the records that the remote will have. An object that local does not have must be
// lost: see [object.LossKeeper]. A refill assumes no object to be on the remote because a
// ref reaches it.
func (p *push) newPlan(ctx context.Context, want []object.Key, after *record.Effects, send func([]item) error) (*plan, error) {
	p.own.beginPlan()
	pl := &planner{push: p, send: send, plan: &plan{kept: map[pack.Name]*sentPack{}, commits: map[object.ID]bool{}, lost: map[object.Key]bool{}}}
	var have []object.ID
	if p.opt.KeepsAway != nil && !p.refill {
		keeps, err := p.opt.KeepsAway(ctx, p.snap.State)
		if err != nil {
			return nil, err
		}
		if keeps {
			pl.away, _ = p.local.(AwayKnower)
		}
	}
	if !p.refill {
		var err error
		if have, err = pl.knownTips(ctx); err != nil {
			return nil, err
		}
	}
	views := recordViews{before: p.snap.Records, after: after.WithLost(func(key object.Key) bool { return after.Lost(key) || pl.isLost(key) })}
	return pl.plan, walkWanted(ctx, pl, want, have, views)
}

func (p *planner) giverName() string { return "the repository" }

// knownTips returns the commits that refs and holds of S name, if they are known here. All
// objects that those refer to are in live(S), except as records of S allow.
func (p *planner) knownTips(ctx context.Context) ([]object.ID, error) {
	ids := map[object.ID]struct{}{}
	for _, key := range p.snap.State.Refs {
		if key.Kind == object.KindTag {
			tag, err := object.ReadTag(ctx, p.local, key.ID)
			if errors.Is(err, object.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			key = object.Key{Kind: object.KindCommit, ID: tag.Target}
		}
		if key.Kind == object.KindCommit {
			ids[key.ID] = struct{}{}
		}
	}

	for _, id := range p.snap.Records.Holds() {
		ids[id] = struct{}{}
	}
	have := make([]object.ID, 0, len(ids))
	for id := range ids {
		have = append(have, id)
	}

	slices.SortFunc(have, object.ID.Compare)
	return have, nil
}

// addNeeded adds an object to the plan, unless live(S) has it. It looks even below a node that
// is there (STOP_AT_REFS).
func (p *planner) addNeeded(ctx context.Context, key object.Key) error {
	if key.Kind == object.KindCommit {
		p.plan.commits[key.ID] = true
	}
	if _, ok, err := p.snap.findWith(ctx, key); ok || err != nil {
		return err
	}
	sent, err := p.own.findPack(key)
	if err != nil {
		return err
	}
	if sent != nil {
		p.plan.kept[sent.info.Name] = sent
		return nil
	}
	if !p.own.planObject(key) {
		return nil
	}

	stored, err := p.storedSize(ctx, key)
	if err != nil {
		return err
	}

	q := &p.plan.chunks
	if key.Kind.IsNode() {
		q = &p.plan.nodes
	}
	q.add(item{key, uint32(stored)})
	p.plan.objects++
	p.plan.bytes += stored
	if batch := q.takeFull(p.b, p.opt.Jobs); batch != nil {
		p.plan.packs++
		return p.send(batch)
	}
	return nil
}

// storedSize returns the size of an object's stored value. An object that is away is fetched from another remote, and counts as
// large as it is.
func (p *planner) storedSize(ctx context.Context, key object.Key) (int64, error) {
	_, stored, err := p.local.StoredSize(ctx, key)
	if !object.IsAway(err) {
		return stored, err
	}
	data, err := p.local.Get(ctx, key)
	return int64(len(data)), err
}

// isLost reports whether the loss of an object was accepted here, and the remote
// does not have it. It notes the object, unless the remote lists it already.
func (p *planner) isLost(key object.Key) bool {
	if !object.IsLost(p.local, key) {
		return false
	}
	if sent, err := p.own.findPack(key); sent != nil || err != nil {
		return false
	}
	if _, there, err := p.snap.Find(key); there || err != nil {
		return false
	}
	if !p.snap.IsLost(key) {
		p.plan.lost[key] = true
	}
	return true
}

// wantedNode implements [ends].
func (p *planner) wantedNode(ctx context.Context, key object.Key) ([]byte, error) {
	if err := p.addNeeded(ctx, key); err != nil {
		return nil, err
	}
	return p.readNode(ctx, key)
}

// readNode returns a node from here or, if it is there, from the remote.
func (p *planner) readNode(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := p.local.Get(ctx, key)
	if !errors.Is(err, object.ErrNotFound) {
		return data, err
	}
	return p.snap.Get(ctx, key)
}

// linksOf implements [ends].
func (p *planner) linksOf(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	lists := make([][]object.Key, len(nodes))
	var left []object.Key
	var at []int // of left, in nodes
	for i, key := range nodes {
		kept, err := p.isKept(ctx, key)
		if err == nil && !kept {
			left, at = append(left, key), append(at, i)
			err = p.addNeeded(ctx, key)
		}
		if err != nil {
			return nil, err
		}
	}
	object.Prefetch(ctx, p.local, left)
	links, err := readLinks(ctx, runtime.GOMAXPROCS(0), left, p.readNode)
	for i, list := range links {
		lists[at[i]] = list
	}
	return lists, err
}

// isKept reports whether an object is away, and the remote keeps it with everything below.
func (p *planner) isKept(ctx context.Context, key object.Key) (bool, error) {
	if p.away == nil {
		return false, nil
	}
	return p.away.IsAway(ctx, key)
}

// awayBatch is the number of chunks that a plan fetches together from another remote.
const awayBatch = 64

// takeChunks implements [ends].
func (p *planner) takeChunks(ctx context.Context, keys []object.Key) error {
	for batch := range slices.Chunk(keys, awayBatch) {
		var needed []object.Key
		for _, key := range batch {
			kept, err := p.isKept(ctx, key)
			if err != nil {
				return err
			}
			if !kept {
				needed = append(needed, key)
			}
		}
		if err := p.prefetch(ctx, needed); err != nil {
			return err
		}
		for _, key := range needed {
			if err := p.addNeeded(ctx, key); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// prefetch brings the chunks here together that are away, and that live(S) lacks.
func (p *planner) prefetch(ctx context.Context, chunks []object.Key) error {
	if !object.HasFarNodes(p.local) {
		return nil
	}
	var absent []object.Key
	for _, key := range chunks {
		if _, there, err := p.snap.findWith(ctx, key); err != nil {
			return err
		} else if !there {
			absent = append(absent, key)
		}
	}
	object.Prefetch(ctx, p.local, absent)
	return nil
}

// certainNode implements [ends].
func (p *planner) certainNode(ctx context.Context, key object.Key) ([]byte, error) {
	if local, ok := p.local.(AwayKnower); ok {
		if away, err := local.IsAway(ctx, key); away || err != nil {
			return nil, cmp.Or[error](err, &object.AwayError{Key: key}) // everything below is kept, or looked up once more
		}
	}
	return p.local.Get(ctx, key)
}

// SmallPack is the number of bytes of objects below which a pack is small.
const SmallPack = 8 << 20

// EntryRoom is more than an object takes in a pack beyond its value.
const EntryRoom = 64

// cutBatches returns the queued objects for each pack: nodes apart from chunks, and objects that the
// walk met together in one pack. If there are few, each of the jobs gets about as many,
// because filling a pack takes time.
func (p *plan) cutBatches(b remote.Backend, jobs int) (batches [][]item) {
	for _, q := range []*queue{&p.nodes, &p.chunks} {
		batches = append(batches, CutBatches(q.items, PackSizesFor(b, q.fullSize(jobs)), item.packRoom)...)
	}
	return batches
}

// fullSize returns the size from which on a pack of these items is full. All jobs get
// packs of about the same size, and no pack is small.
func (q *queue) fullSize(jobs int) int {
	if q.begun {
		return pack.TargetSize
	}
	packs := (q.room + pack.TargetSize - 1) / pack.TargetSize
	packs = max(1, (packs+jobs-1)/jobs) * jobs
	return min(max(q.room/packs, SmallPack), pack.TargetSize)
}
