package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	// BeginChunks is called once, when only chunks are left to receive, with their
	// number and the bytes to read. It may be nil.
	BeginChunks func(ctx context.Context, chunks, bytes int64)

	// Chunk is called for each chunk that is received for the first time, with its
	// verified bytes. It must not keep the bytes. Several goroutines call it at once.
	// It may be nil.
	Chunk func(id object.ID, data []byte)

	Jobs     int            // requests under way at once; 0: as the Remote
	Progress func(Progress) // called now and then, one call at a time; may be nil
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

// Fetch brings everything that o.Want refers to into session, except what o.Have
// refers to. Head is the remote's current root. The caller publishes the session
// and moves refs. The commits in o.Have must stay until then. After an error, the
// received objects are in the session. After the session is closed, the next
// fetch does not receive them again.
//
// Every object is decoded and hashed before it is stored. A damaged object is read
// again, then from every other pack that has it. If no copy is intact, the error is
// an [*object.CorruptError] that names object, pack and offset. If the remote does
// not have an object, the error is an [*object.NotFoundError].
//
// If packs were deleted meanwhile, Fetch plans again at the current root. If a
// wanted object is no longer reachable there, the error matches [ErrDeleted].
func (r *Remote) Fetch(ctx context.Context, session *volume.Session, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	f := &fetch{r: r, session: session, o: o, jobs: o.Jobs, meter: &meter{report: o.Progress}}
	if f.jobs <= 0 {
		f.jobs = r.o.Jobs
	}

	if r.source != nil {
		f.snap, f.at = &snapshot{r: r, state: head}, head
		return f.outcome(f.run(ctx))
	}

	f.values = pack.NewValues(f.readBases, baseBlock)
	var err error
	if f.nodes, err = openNodePacks(r.o.Dir, f.jobs, f.read); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}

	defer f.nodes.close()
	return f.outcome(r.following(ctx, head, func(now *rootlog.State) error {
		f.moved = f.moved || now.Seq != head.Seq
		f.at = now
		err := f.attempt(ctx)
		if errors.Is(err, object.ErrNotFound) && f.moved {
			err = f.deleted(ctx, err)
		}
		return err
	}))
}

// outcome returns the result of a fetch, unless that failed.
func (f *fetch) outcome(err error) (*FetchResult, error) {
	if err != nil {
		return nil, err
	}
	return &FetchResult{
		Objects: f.meter.at.Objects, Bytes: f.meter.at.Bytes,
		Records: f.records.take, Forget: f.records.forget, Waiting: f.records.waiting, Implausible: f.at.Implausible,
		Lost: f.lost,
	}, nil
}

// fetch is a fetch under way.
type fetch struct {
	r       *Remote
	session *volume.Session
	o       FetchOptions
	jobs    int

	nodes   *nodePacks
	values  *pack.Values
	at      *rootlog.State // the last known head of the remote
	moved   bool           // the head has changed since the fetch began
	snap    *snapshot      // of the remote at that head
	records *recordComparison
	lost    map[object.Key]string // see FetchResult
	plan    *chunkPlan
	ahead   ahead // of the walk
	meter   *meter
	begun   bool // BeginChunks was called
}

// attempt plans the fetch at the last known head and carries it out.
func (f *fetch) attempt(ctx context.Context) error {
	snap, err := f.r.snapshotAt(ctx, f.at)
	if err != nil {
		return err
	}
	f.moved = f.moved || snap.state.Seq != f.at.Seq
	f.snap, f.at = snap, snap.state
	if err := f.run(ctx); err != nil {
		return err
	}
	return f.copyChunks(ctx)
}

// run walks the wanted objects, receives the nodes, and plans to receive the chunks. From
// a repository, it receives the chunks, too.
func (f *fetch) run(ctx context.Context) (err error) {
	f.plan, f.ahead, f.lost = newChunkPlan(), ahead{}, map[object.Key]string{}
	f.meter.update(func(at *Progress) { at.Phase = PhasePlan })
	if f.records, err = f.compareRecords(ctx); err != nil {
		return err
	}
	found, err := f.found(ctx)
	if err != nil {
		return err
	}
	return walk(ctx, f, slices.Concat(found, f.records.want, f.o.Want), f.o.Have, f.records.views)
}

// deleted returns the error for an object that is missing on the remote, after the
// head has changed since the fetch began. The error matches [ErrDeleted] if no ref
// reaches a wanted commit, or names another wanted object, any more. Packs may be
// deleted again by now: then it matches [remote.ErrNotFound], too.
func (f *fetch) deleted(ctx context.Context, missing error) error {
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
			history = newWalker(f, f.records.views)
			if _, err := history.history(ctx, refs, nil); err != nil {
				return errors.Join(missing, err)
			}
		}
		if key.Kind != object.KindCommit || history.past[key.ID] == nil {
			return fmt.Errorf("%s: %w", key, ErrDeleted)
		}
	}
	return missing
}

// read reads from a pack and counts the bytes. It returns fewer bytes than asked
// for if the pack ends there.
func (f *fetch) read(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := f.r.b.Get(ctx, p.Name.Path(), b, off)
	if err != nil {
		return 0, err
	}
	f.meter.update(func(at *Progress) { at.Bytes += int64(n) })
	return n, nil
}

// readBases reads patch bases that are not part of the plan, and adds their bytes
// to the progress total.
func (f *fetch) readBases(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := f.read(ctx, p, b, off)
	f.meter.update(func(at *Progress) {
		if at.TotalBytes > 0 {
			at.TotalBytes += int64(n)
		}
	})
	return n, err
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
	if _, there, err := f.snap.find(key); there || err != nil {
		return false
	}
	if absent, err := f.absent(context.Background(), []object.Key{key}); err != nil || len(absent) == 0 {
		return false
	}
	if !accepted {
		f.lost[key] = who
	}
	return true
}

// found returns the objects that are lost here, and that the remote has with all
// below them. Of the others nothing is stored: more would seem to be missing here.
func (f *fetch) found(ctx context.Context) (list []object.Key, err error) {
	for _, key := range f.o.Lost {
		_, there, err := f.snap.find(key)
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, key)
		}
	}
	if len(list) == 0 || walk(ctx, probe{f}, list, f.o.Have, f.records.views) == nil {
		return list, nil
	}

	var each []object.Key
	for _, key := range list {
		err := walk(ctx, probe{f}, []object.Key{key}, f.o.Have, f.records.views)
		switch {
		case err == nil:
			each = append(each, key)
		case !isAbsent(err):
			return nil, err
		}
	}
	return each, nil
}

// probe implements [ends] for a fetch that stores nothing.
type probe struct{ *fetch }

func (p probe) node(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := p.session.Get(ctx, key)
	if isAbsent(err) {
		return p.snap.Get(ctx, key)
	}
	return data, err
}

func (p probe) links(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	return linksOf(ctx, p.jobs, nodes, p.node)
}

func (p probe) chunks(ctx context.Context, keys []object.Key) error {
	absent, err := p.absent(ctx, keys)
	for i := 0; i < len(absent) && err == nil; i++ {
		_, err = p.snap.place(absent[i])
	}
	return err
}

// isAbsent reports whether an error says that an object is missing or damaged.
func isAbsent(err error) bool {
	return errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt)
}

// The walk of a history reads one commit after the other. After small pushes, each
// commit may be in another pack, and each pack costs a request. So the more packs the
// walk had to wait for, the more it reads ahead.
const (
	aheadPack    = 1 << 20 // bytes of the largest pack that is taken ahead
	aheadEntries = 50_000  // of the largest index file that is looked through for some
	aheadMost    = 64      // packs at once
)

// ahead knows packs that hold commits which are not here.
type ahead struct {
	waited int          // packs that were not taken when they were needed
	packs  []pack.Entry // a commit of each; not known until the second was waited for
}

// aheadOf returns the entries whose packs the walk reads together: the entry of a
// commit, and about as many others as packs were waited for so far.
func (f *fetch) aheadOf(ctx context.Context, e pack.Entry) ([]pack.Entry, error) {
	entries := []pack.Entry{e}
	if f.nodes.asked(e) {
		return entries, nil
	}
	f.ahead.waited++
	switch f.ahead.waited {
	case 1:
		return entries, nil
	case 2:
		if err := f.lookAhead(ctx); err != nil {
			return nil, err
		}
	}
	for len(f.ahead.packs) > 0 && len(entries) < min(1<<min(f.ahead.waited, 10), aheadMost) {
		next := f.ahead.packs[0]
		f.ahead.packs = f.ahead.packs[1:]
		if !f.nodes.asked(next) {
			entries = append(entries, next)
		}
	}
	return entries, nil
}

// lookAhead finds small packs with commits that are not here.
func (f *fetch) lookAhead(ctx context.Context) error {
	found := map[object.Key]pack.Entry{}
	for p, err := range f.snap.entriesIn(func(file int) bool { return f.snap.indexes[file].Len() <= aheadEntries }) {
		if err != nil {
			return err
		}
		if p.Key.Kind == object.KindCommit && p.Pack.Size <= aheadPack {
			found[p.Key] = p.Entry
		}
	}

	absent, err := f.absent(ctx, slices.Collect(maps.Keys(found)))
	if err != nil {
		return err
	}

	seen := map[pack.Name]bool{}
	for _, key := range absent {
		if e := found[key]; !seen[e.Pack.Name] {
			seen[e.Pack.Name] = true
			f.ahead.packs = append(f.ahead.packs, e)
		}
	}
	return nil
}
