package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ErrDeleted is matched by the error for a wanted object that no ref of the
// remote reaches any more.
var ErrDeleted = errors.New("deleted or expired on the remote meanwhile")

// FetchOptions say what [Remote.Fetch] fetches.
type FetchOptions struct {
	Want []object.Key // objects that refs of the remote name
	Have []object.ID  // commits that refs here name; all that they need is here

	// Records are the repository's. They name the objects that the commits in Have
	// refer to, but that may be missing here.
	Records *record.Set

	// Accept receives the remote's records that would count here, and returns the
	// ones to leave out. These do not change the fetch, and must concern
	// objects that are here in full. If the fetch is planned again, Accept is
	// called again. If Accept is nil, all records are taken.
	Accept func(context.Context, []record.Record) (waiting []record.Record, err error)

	// Lost are the objects whose loss was accepted here. Fetch receives each of
	// them that the remote has with everything below.
	Lost []object.Key

	// RefuseLost treats objects that the remote lists as lost as missing.
	RefuseLost bool

	// CommitsOnly leaves out the content of commits: the remote is to keep it. See [Promise].
	CommitsOnly bool

	// BeginChunks is called once, when only chunks are left to receive, with their
	// number and the bytes to read. If there are more than a million in all, some were received before. It may be nil.
	BeginChunks func(ctx context.Context, chunks, bytes int64)

	// Chunk is called for each chunk that is received for the first time, with its
	// verified bytes. It must not keep the bytes. Several goroutines call it at once.
	// It may be nil.
	Chunk func(id object.ID, data []byte)

	Jobs     int            // requests under way at once; 0: as the Remote
	Progress func(Progress) // called now and then, one call at a time; may be nil

	window int // see planWindow; 0: that many
}

// FetchResult describes the outcome of a fetch.
type FetchResult struct {
	Objects int64 // received
	Bytes   int64 // of packs, read from the remote

	// The caller removes the records in Forget from the repository, and then merges
	// Records, which are some of the remote's. It does so in one step with the refs. The
	// result needs all fetched objects, unless the repository's records have changed
	// meanwhile.
	Records *record.Set
	Forget  []record.Record
	Waiting []record.Record // the records that Accept returned

	Implausible []record.Record // of the remote, without effect

	// Lost are the objects that neither end has, with the name of the user who accepted
	// the loss. The repository has not accepted the loss yet. The caller must do so, in
	// the same step.
	Lost map[object.Key]string
}

// Fetch implements [Source]. A damaged object is read again, then from every other pack that
// has it. If no copy is intact, the error is an [*object.CorruptError] that names object, pack
// and offset.
//
// If packs were deleted meanwhile, Fetch plans again at the current root. If a
// wanted object is no longer reachable there, the error matches [ErrDeleted].
func (r *Remote) Fetch(ctx context.Context, session *volume.Session, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	f := newFetch(session, head, o, r.o.Jobs)
	g := &packGiver{fetch: f, r: r, window: cmp.Or(o.window, planWindow)}
	f.giver = g

	g.values = pack.NewValues(g.readBases, BaseBlock)
	var err error
	if g.nodes, err = OpenNodePacks(r.o.Dir, f.jobs, g.readCounted); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}

	defer g.nodes.Close()
	return f.result(r.RetryAtHead(ctx, head, func(now *rootlog.State) error {
		g.moved = g.moved || now.Seq != head.Seq
		f.at = now
		err := g.planAndCopy(ctx)
		if errors.Is(err, object.ErrNotFound) && g.moved {
			err = g.explainDeleted(ctx, err)
		}
		return err
	}))
}

// fetch is a fetch under way. It implements [ends]. It reads a node from the repository or, if
// that does not have the node, receives it from the giver.
type fetch struct {
	giver
	session *volume.Session
	o       FetchOptions
	jobs    int

	at      *rootlog.State // the last known head of the giver
	records *recordComparison
	lost    map[object.Key]string // see FetchResult
	meter   *Meter
}

// giver is the end of a fetch that has the objects. As an [object.Reader], it stores nothing.
type giver interface {
	object.Reader
	giverName() string // in errors

	// prepareNodes is called before giveNode is called for several nodes. The error for a
	// missing node is an [*object.AbsentError].
	prepareNodes(ctx context.Context, nodes []object.Key) error

	// giveNode verifies a node, stores it in the session, and returns it.
	giveNode(ctx context.Context, key object.Key) ([]byte, error)

	// giveChunks verifies and stores chunks, unless they are here. It may do so later.
	giveChunks(ctx context.Context, keys []object.Key) error
}

func newFetch(session *volume.Session, head *rootlog.State, o FetchOptions, jobs int) *fetch {
	return &fetch{session: session, o: o, jobs: cmp.Or(max(o.Jobs, 0), jobs), at: head, meter: NewMeter(o.Progress)}
}

// result returns the result of a fetch, unless that failed.
func (f *fetch) result(err error) (*FetchResult, error) {
	if err != nil {
		return nil, err
	}
	return &FetchResult{
		Objects: f.meter.at.Objects, Bytes: f.meter.at.Bytes,
		Records: f.records.take, Forget: f.records.forget, Waiting: f.records.waiting, Implausible: f.at.Implausible,
		Lost: f.lost,
	}, nil
}

// receiveAll walks the wanted objects and receives them. A [packGiver] only plans to receive
// the chunks.
func (f *fetch) receiveAll(ctx context.Context) (err error) {
	f.lost = map[object.Key]string{}
	f.meter.Update(func(at *Progress) { at.Phase = PhasePlan })
	if f.records, err = f.compareRecords(ctx); err != nil {
		return err
	}
	found, err := f.findRestored(ctx)
	if err != nil {
		return err
	}
	want := slices.Concat(found, f.records.want, f.o.Want)
	if f.o.CommitsOnly {
		_, err := newWalker(f, f.records.views).walkHistory(ctx, want, f.o.Have)
		return err
	}
	return walkWanted(ctx, f, want, f.o.Have, f.records.views)
}

// isLost reports whether an object is neither here nor there, and its loss was
// accepted here or, unless that is refused, there. It notes the latter.
func (f *fetch) isLost(key object.Key) bool {
	who, listed := f.at.Lost[key]
	listed = listed && !f.o.RefuseLost
	accepted := f.session.IsLost(key)
	if !listed && !accepted {
		return false
	}
	if missing, err := f.Missing(context.Background(), []object.Key{key}); err != nil || len(missing) == 0 {
		return false
	}
	if absent, err := f.absentHere(context.Background(), []object.Key{key}); err != nil || len(absent) == 0 {
		return false
	}
	if !accepted {
		f.lost[key] = who
	}
	return true
}

// findRestored returns the objects that are lost here, and that the giver has with all
// below them. Of the others nothing is stored: more would seem to be missing here.
func (f *fetch) findRestored(ctx context.Context) ([]object.Key, error) {
	missing, err := f.Missing(ctx, f.o.Lost)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(f.o.Lost), func(key object.Key) bool { return slices.Contains(missing, key) })
	if len(list) == 0 || walkWanted(ctx, probe{f}, list, f.o.Have, f.records.views) == nil {
		return list, nil
	}

	var each []object.Key
	for _, key := range list {
		err := walkWanted(ctx, probe{f}, []object.Key{key}, f.o.Have, f.records.views)
		switch {
		case err == nil:
			each = append(each, key)
		case !object.IsUnreadable(err):
			return nil, err
		}
	}
	return each, nil
}

// probe implements [ends] for a fetch that stores nothing.
type probe struct{ *fetch }

func (p probe) wantedNode(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := p.session.Get(ctx, key)
	if object.IsUnreadable(err) {
		return p.Get(ctx, key)
	}
	return data, err
}

func (p probe) linksOf(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	return readLinks(ctx, p.jobs, nodes, p.wantedNode)
}

func (p probe) takeChunks(ctx context.Context, keys []object.Key) error {
	absent, err := p.absentHere(ctx, keys)
	if err != nil {
		return err
	}
	missing, err := p.Missing(ctx, absent)
	if err == nil && len(missing) > 0 {
		err = &object.AbsentError{Key: missing[0]}
	}
	return err
}
