package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ErrDeleted is matched by the error for a wanted object that no ref of the
// remote reaches any more.
var ErrDeleted = errors.New("deleted or expired on the remote meanwhile")

// FetchOptions say what [Remote.Fetch] fetches.
type FetchOptions struct {
	Want []object.Key // what refs of the remote name
	Have []object.ID  // commits of which everything is here, because refs name them

	// Records are those of the repository: what need not be there of what Have
	// refers to.
	Records *record.Set

	// Accept is given the remote's records that would count here, and returns
	// those of them that must not be taken: they have no effect on what is
	// fetched, and have to concern what is here in full. It is called again if
	// the fetch is planned again. nil: all are taken.
	Accept func(context.Context, []record.Record) (waiting []record.Record, err error)

	// Lost are the objects whose loss was accepted here. Those that the remote has
	// with everything below are fetched.
	Lost []object.Key

	// RefuseLost refuses what the remote lists as lost: it is missing then.
	RefuseLost bool

	// Chunks is called when all that is wanted is in the session but that many
	// chunks, and they are about to be received. What it returns is told of each
	// that is received for the first time, with its bytes, which are verified;
	// it must not keep them, and is called by several goroutines at once. Both
	// may be nil.
	Chunks func(ctx context.Context, chunks, bytes int64) func(id object.ID, data []byte)

	Jobs     int            // requests under way at once; 0: as the Remote
	Progress func(Progress) // called every now and then, never twice at once; nil: no one is told
}

// FetchResult tells what came of a fetch.
type FetchResult struct {
	Objects int64 // received
	Bytes   int64 // of packs, read from the remote

	// Records are those of the remote's that the caller has to merge with the
	// repository's, after it has forgotten those in Forget, in one step with
	// the refs. What was fetched is what is needed by the outcome, unless the
	// repository's records have come to say meanwhile that it needs less.
	Records *record.Set
	Forget  []record.Record
	Waiting []record.Record // the records that Accept returned

	Implausible []record.Record // of the remote, without effect

	// Lost are the objects that are neither here nor there, with the name of whoever
	// accepted the loss. It was not accepted here yet: the caller has to, in the same
	// step.
	Lost map[object.Key]string
}

// Fetch brings everything that o.Want refers to into session, but for what
// o.Have refers to; head is the remote's current root. The caller publishes
// the session and moves refs; the commits in o.Have have to stay until then.
// After an error, what was received is in the session, and need not be fetched
// again once that is closed.
//
// Every object is decoded and hashed before it is stored. One that is damaged
// is read again, then from every other pack that has it; if no copy is whole
// the error is an [*object.CorruptError] that names object, pack and offset. An
// object that the remote lacks is an [*object.NotFoundError]. Packs that were
// deleted meanwhile have the fetch be planned again at the then current root;
// if what is wanted is gone there, the error matches [ErrDeleted].
func (r *Remote) Fetch(ctx context.Context, session *volume.Session, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	f := &fetch{r: r, session: session, o: o, jobs: o.Jobs, meter: &meter{tell: o.Progress}}
	if f.jobs <= 0 {
		f.jobs = r.o.Jobs
	}
	f.values = pack.NewValues(f.readBases, baseBlock)
	var err error
	if f.nodes, err = openNodePacks(r.o.Dir, f.jobs, f.read); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	defer f.nodes.close()
	for again := false; ; {
		f.at = head
		err := f.attempt(ctx)
		if err == nil {
			return &FetchResult{
				Objects: f.meter.at.Objects, Bytes: f.meter.at.Bytes,
				Records: f.news.take, Forget: f.news.forget, Waiting: f.news.waiting, Implausible: f.at.Implausible,
				Lost: f.lost,
			}, nil
		}
		if errors.Is(err, object.ErrNotFound) && f.moved {
			err = f.deleted(ctx, err)
		}
		if !errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) {
			return nil, err
		}
		next, headErr := r.Head(ctx)
		switch {
		case headErr != nil:
			return nil, headErr
		case next.Seq != f.at.Seq:
			head, again, f.moved = next, false, true
		case again:
			return nil, fmt.Errorf("root %d needs what is not there: %w", f.at.Seq, err)
		default:
			again = true
		}
	}
}

// fetch is a fetch under way.
type fetch struct {
	r       *Remote
	session *volume.Session
	o       FetchOptions
	jobs    int

	nodes  *nodePacks
	values *pack.Values
	at     *rootlog.State // the remote's head, as far as is known
	moved  bool           // it is not that with which the fetch began
	snap   *snapshot      // of it
	news   *fetchNews
	lost   map[object.Key]string // see FetchResult
	plan   *chunkPlan
	ahead  ahead // of the walk
	meter  *meter

	told  bool                            // that chunks are about to be received
	chunk func(id object.ID, data []byte) // told of each that is received, if not nil
}

// attempt plans the fetch at the head that is known and does it.
func (f *fetch) attempt(ctx context.Context) error {
	snap, err := f.r.snapshotAt(ctx, f.at)
	if err != nil {
		return err
	}
	f.moved = f.moved || snap.state.Seq != f.at.Seq
	f.snap, f.at, f.plan, f.ahead = snap, snap.state, newChunkPlan(), ahead{}
	f.lost = map[object.Key]string{}
	f.meter.update(func(at *Progress) { at.Phase = PhasePlan })
	if f.news, err = f.readNews(ctx); err != nil {
		return err
	}
	found, err := f.found(ctx)
	if err != nil {
		return err
	}
	if err := walk(ctx, f, "remote", slices.Concat(found, f.news.want, f.o.Want), f.o.Have, f.news.said); err != nil {
		return err
	}
	return f.copyChunks(ctx)
}

// deleted returns what to say of an object that the remote lacks, now that its
// head is another one than the wanted commits were read from. Packs may be gone
// again by now: then the error matches [remote.ErrNotFound], too.
func (f *fetch) deleted(ctx context.Context, lacking error) error {
	named := map[object.Key]bool{}
	var refs []object.Key
	for _, key := range f.at.Refs {
		named[key] = true
		refs = append(refs, key)
	}
	var history *walker
	for _, key := range f.o.Want {
		if named[key] {
			continue
		}
		if history == nil && key.Kind == object.KindCommit {
			history = newWalker(f, "remote")
			history.said = f.news.said
			if _, err := history.history(ctx, refs, nil); err != nil {
				return errors.Join(lacking, err)
			}
		}
		if key.Kind != object.KindCommit || history.past[key.ID] == nil {
			return fmt.Errorf("%s: %w", key, ErrDeleted)
		}
	}
	return lacking
}

// read reads from a pack. Fewer bytes than asked for mean that it ends there.
func (f *fetch) read(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := f.r.b.Get(ctx, p.Name.Path(), b, off)
	if err != nil {
		return 0, err
	}
	f.meter.update(func(at *Progress) { at.Bytes += int64(n) })
	return n, nil
}

// readBases is read for what patches are made from, which is not among what is to
// be moved.
func (f *fetch) readBases(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := f.read(ctx, p, b, off)
	f.meter.update(func(at *Progress) {
		if at.TotalBytes > 0 {
			at.TotalBytes += int64(n)
		}
	})
	return n, err
}
