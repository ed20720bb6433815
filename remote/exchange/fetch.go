// Package exchange fetches, pushes, pulls and clones.
package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// FetchOptions are the options of [Fetch].
type FetchOptions struct {
	Remote   string              // a name, a URL or an absolute path
	Refs     []registry.FetchRef // nil: all branches; of a remote without a name: its default branch
	NoTags   bool                // do not fetch all tags
	Force    bool                // replace local tags that differ
	Prune    bool                // delete remote-tracking branches whose branch is gone
	Waiting  Decision            // about waiting records
	DryRun   bool
	Jobs     int // downloads at once; 0: the default of package transfer
	Progress func(transfer.Progress)

	single bool            // only Refs, and no tags but these
	ahead  *cloneAhead     // receives the chunks, unless the remote has purges; nil: none
	opened transfer.Source // the remote, if it is open; Fetch closes it
}

// FetchedRef is a ref in the result of a fetch.
type FetchedRef struct {
	Name     string // full, on the remote
	Local    string // full, here: a remote-tracking branch, a tag, or as asked for; empty: none
	Old, New object.ID
	Forced   bool   // it is not a fast-forward
	Unsure   bool   // a dry run cannot decide whether it is one
	Kept     bool   // a tag with another value here, which stays
	Clash    string // full name of the ref here that is in the way of Local, which was not made; usually empty
	move     bool   // Local must be moved by a fast-forward
}

// FetchResult is the result of a fetch.
type FetchResult struct {
	Refs           []FetchedRef // sorted by local name, unchanged refs included
	Head           string       // the remote's default branch, full name; may be empty
	FetchHead      object.ID    // the commit that FETCH_HEAD names now; zero: it is unchanged
	Objects, Bytes int64        // received
	Records        int          // merged records of the remote, see package record

	// Received are the new records of the remote, waiting ones included. Each
	// fetch receives waiting records again.
	Received    []ReceivedRecord
	Implausible []record.Record // of the remote, without effect, see [record.Record.Plausible]

	// Lost are the objects that neither end has, and whose loss was accepted on the
	// remote. From now on it is accepted here, too.
	Lost []LostObject
}

// Fetch copies the objects of a remote's branches and tags, and then moves the
// remote-tracking branches. It changes neither branches nor the worktree.
func Fetch(ctx context.Context, r *kist.Repository, o FetchOptions) (*FetchResult, error) {
	m, err := registry.Resolve(r, o.Remote)
	if err != nil {
		return nil, err
	}

	opened := o.opened
	if opened == nil {
		if opened, err = registry.OpenSource(ctx, r, m); err != nil {
			return nil, err
		}
	}

	defer opened.Close()
	warned := false
	var result *FetchResult
	var head *rootlog.State
	for try := 1; ; try++ {
		err := r.Update(ctx, func(tx *kist.Tx) (err error) {
			if head, err = opened.Head(ctx); err != nil {
				return err
			}
			if head.SingleWriter && !m.SingleWriter && !warned {
				warned = true
				r.Options().Warn(fmt.Sprintf("remote %q: %v", m.Label(), rootlog.ErrSingleWriter))
			}
			result, err = fetch(ctx, tx, opened, head, o)
			return err
		})
		if err == nil && !o.DryRun && m.Name != "" {
			secureAfterFetch(ctx, r, m.Name, head)
			if o.ahead == nil && r.Config().IsLazy() {
				keepFetched(ctx, r, m.Name)
			}
		}
		if !errors.Is(err, refs.ErrMoved) || try == 3 { // by another fetch
			return result, err
		}
	}
}

// keepFetched renews the keep ref of a lazy repository, which has new names. Without permission to write there is none. Another error is a
// warning: the branches of the remote keep the content for now.
func keepFetched(ctx context.Context, r *kist.Repository, name string) {
	err := RenewKeep(ctx, r, name, nil)
	if err != nil && !errors.Is(err, ErrNoKeep) && !errors.Is(err, transfer.ErrRepository) {
		r.Options().Warn(fmt.Sprintf("fetched, but the remote does not promise to keep the content: %v", err))
	}
}

// fetch fetches from a remote that is at head.
func fetch(ctx context.Context, tx *kist.Tx, opened transfer.Source, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	r := tx.Repository()
	wanted, gone, err := selectRefs(r, head, o)
	if err != nil {
		return nil, err
	}
	fetchHead, err := findFetchHead(r, head, o)
	if err != nil {
		return nil, err
	}

	records, readable, err := r.RecordsOrEmpty()
	if err != nil {
		return nil, err
	}
	if !readable { // nothing is merged
		records = head.Records
	}

	j, err := NewJudge(r, records, o.Waiting)
	if err != nil {
		return nil, err
	}

	lost, err := r.Objects().Lost(ctx)
	if err != nil {
		return nil, err
	}

	f := &fetching{
		FetchOptions: o, r: r, head: head, tx: tx,
		judge: j, readable: readable, lost: lost, wanted: wanted,
		received: &transfer.FetchResult{Records: head.Records, Implausible: head.Implausible},
		result:   &FetchResult{Head: head.DefaultBranch}, fetchHead: fetchHead,
	}
	if f.promise, err = newPromise(r, opened, head, o); err != nil {
		return nil, err
	}

	if !o.DryRun {
		err = f.receive(ctx, opened)
	}
	if err == nil {
		err = f.finish(ctx, gone)
	}
	if err != nil {
		r.Objects().SetLost(lost) // another try names the rest again
	}
	return f.result, err
}

// fetching is one attempt of a fetch.
type fetching struct {
	FetchOptions
	r        *kist.Repository
	head     *rootlog.State
	tx       *kist.Tx
	judge    *judge
	readable bool        // the records here can be read, so new ones are merged
	have     []object.ID // commits that are complete here
	lost     []object.Key
	wanted   []FetchedRef
	received *transfer.FetchResult
	result   *FetchResult

	fetchHead object.ID // of FETCH_HEAD, not peeled; zero: none

	promise *promise // of a remote that keeps the content of the fetched commits; nil: the fetch brings it here
}

// receive copies the objects and records that are missing here.
func (f *fetching) receive(ctx context.Context, opened transfer.Source) error {
	var want []object.Key
	for _, ref := range f.wanted {
		if !ref.Kept && ref.Old != ref.New {
			want = append(want, f.head.Refs[ref.Name])
		}
	}

	records := f.judge.ours
	if len(want)+len(f.head.Records.Newer(records))+len(f.lost) == 0 {
		return nil
	}

	var err error
	if f.have, err = listCompleteCommits(ctx, f.r); err != nil {
		return err
	}

	to := transfer.FetchOptions{
		Want: want, Have: f.have, Records: records, Accept: f.judge.Waits, Lost: f.lost, RefuseLost: f.judge.accept == "never",
		Jobs: f.Jobs, Progress: f.Progress, CommitsOnly: f.promise != nil,
	}
	if f.ahead != nil && !hasPurge(f.head.Records) {
		to.BeginChunks = func(ctx context.Context, chunks, bytes int64) {
			f.ahead.begin(ctx, f.tx, &FetchResult{Refs: f.wanted, Head: f.head.DefaultBranch, Objects: chunks, Bytes: bytes})
		}
		to.Chunk = f.ahead.chunk
	}
	if f.received, err = opened.Fetch(ctx, f.tx.Session, f.head, to); err != nil {
		return err
	}

	f.result.Objects, f.result.Bytes = f.received.Objects, f.received.Bytes
	if f.result.Lost, err = affectedByLoss(ctx, f.tx, want, f.received.Lost); err != nil {
		return err
	}

	f.lost = slices.Clip(f.lost)
	for _, gap := range f.result.Lost {
		f.lost = append(f.lost, gap.Key)
	}

	f.r.Objects().SetLost(f.lost) // so that history can be followed
	return nil
}

// finish compares the refs and publishes. Gone are refs to delete.
func (f *fetching) finish(ctx context.Context, gone []FetchedRef) error {
	for i, ref := range f.wanted {
		if ref.Local != "" && !strings.HasPrefix(ref.Local, refs.Tags) && !ref.Old.IsZero() && ref.Old != ref.New {
			forward, err := history.IsAncestor(ctx, f.tx, ref.Old, ref.New)
			if f.DryRun && errors.Is(err, object.ErrNotFound) {
				f.wanted[i].Unsure = true
				continue
			}
			if err != nil {
				return err
			}
			if f.wanted[i].Forced = !forward; !forward && ref.move {
				return fmt.Errorf("%q: %w", ref.Local, transfer.ErrNotFastForward)
			}
		}
	}
	f.result.Refs = append(f.wanted, gone...)
	slices.SortStableFunc(f.result.Refs, func(a, b FetchedRef) int { return strings.Compare(a.Local, b.Local) })
	if !f.fetchHead.IsZero() && !f.DryRun {
		id, err := refs.Peel(ctx, f.tx, f.fetchHead)
		if err != nil {
			return err
		}
		f.result.FetchHead = id
	}
	f.result.Implausible = f.received.Implausible
	if f.DryRun {
		return f.foresee(ctx)
	}
	f.tx.Need(f.have...)
	if f.promise != nil {
		if err := f.promise.note(ctx, f); err != nil {
			return err
		}
	}
	f.tx.NoteStep(f.publish)
	return f.tx.Publish(ctx)
}

// publish writes the accepted losses, the records and the refs. The fetched commits are complete:
// the walk of the remote has seen to that.
func (f *fetching) publish(ctx context.Context) error {
	if f.promise != nil {
		lock, err := lockLazy(ctx, f.r, disk.Shared)
		if err != nil {
			return err
		}
		defer lock.Unlock()
		if lazy, err := kist.IsLazyNow(f.r); err != nil || !lazy {
			return cmp.Or(err, errLazyMore)
		}
	}
	if len(f.result.Lost) > 0 {
		if err := disk.WriteFile(filepath.Join(f.r.Dir(), kist.LostFile), kist.EncodeLost(f.lost)); err != nil {
			return err
		}
	}
	if f.readable {
		if err := f.judge.note(ctx, f.received, f.Waiting, f.result); err != nil {
			return err
		}
	}
	return noteFetched(ctx, f.r, f.FetchOptions, f.result)
}

// foresee completes the result of a dry run. It adds the records that a fetch would
// receive, and the objects that neither end has if only the remote accepted their
// loss. A fetch that needs one of them names it, or fails if it is refused.
func (f *fetching) foresee(ctx context.Context) (err error) {
	if f.result.Received, err = f.judge.wouldReceive(ctx, f.head.Records); err != nil {
		return err
	}
	if !slices.ContainsFunc(f.wanted, func(ref FetchedRef) bool { return ref.Old != ref.New && !ref.Kept }) {
		return nil
	}

	objects := f.r.Objects()
	missing, err := objects.Missing(ctx, slices.SortedFunc(maps.Keys(f.head.Lost), object.Key.Compare))
	for _, key := range missing {
		absent := &object.AbsentError{Key: key}
		switch {
		case objects.IsLost(key):
		case f.judge.accept == "never":
			return fmt.Errorf("remote lacks %s: %w", key, absent)
		default:
			f.result.Lost = append(f.result.Lost, LostObject{&gc.Problem{Key: key, Err: absent}, f.head.Lost[key]})
		}
	}
	return err
}

// hasPurge reports whether records contain a purge.
func hasPurge(records *record.Set) bool {
	for r := range records.All() {
		if r.Kind == record.Purge {
			return true
		}
	}
	return false
}

// listCompleteCommits returns the commits of HEAD and of all refs, which are complete here. It
// leaves out commits whose loss was accepted.
func listCompleteCommits(ctx context.Context, r *kist.Repository) ([]object.ID, error) {
	list, err := r.Refs().List("")
	if err != nil {
		return nil, err
	}

	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}

	ids := map[object.ID]struct{}{}
	if !head.Unborn() && !r.Objects().IsLost(object.Key{Kind: object.KindCommit, ID: head.ID}) {
		ids[head.ID] = struct{}{}
	}

	for _, ref := range list {
		id, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if errors.Is(err, object.ErrLost) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids[id] = struct{}{}
	}
	return slices.Collect(maps.Keys(ids)), nil
}

// noteFetched moves the refs. It runs while the objects are being published.
func noteFetched(ctx context.Context, r *kist.Repository, o FetchOptions, result *FetchResult) error {
	var changes, deleted []refs.Change
	for _, f := range result.Refs {
		c := refs.Change{Name: f.Local, Old: f.Old, New: f.New, Reason: "fetch"}
		switch {
		case f.Local == "" || f.Kept || f.Old == f.New:
			continue
		case f.Forced:
			c.Reason = "fetch: forced-update"
		case !f.Old.IsZero() && !f.New.IsZero():
			c.Reason = "fetch: fast-forward"
		}
		if f.New.IsZero() {
			deleted = append(deleted, c)
		} else {
			changes = append(changes, c)
		}
	}
	if len(deleted) > 0 { // first: the name of one may be a folder in that of another
		if err := r.Refs().Update(ctx, deleted, r.Who()); err != nil {
			return err
		}
	}
	if err := makeFetched(ctx, r, changes, result); err != nil {
		return err
	}

	if !result.FetchHead.IsZero() {
		if err := r.Refs().SetSpecial(ctx, refs.FetchHead, result.FetchHead); err != nil {
			return err
		}
	}
	if kist.CheckRemoteName(o.Remote) != nil { // a URL
		return nil
	}
	tracking := refs.Remotes + o.Remote + "/"
	branch, ok := strings.CutPrefix(result.Head, refs.Heads)
	if _, err := r.Refs().Get(tracking + branch); !ok || err != nil {
		return nil
	}
	return r.Refs().SetRemoteHead(ctx, tracking+"HEAD", tracking+branch)
}

// makeFetched makes and moves refs. It leaves out those for which another ref is in the way, such as
// the remote-tracking branch a for a/b, and notes them in the result.
func makeFetched(ctx context.Context, r *kist.Repository, changes []refs.Change, result *FetchResult) error {
	for len(changes) > 0 {
		err := r.Refs().Update(ctx, changes, r.Who())
		clash, ok := errors.AsType[*refs.ConflictError](err)
		if !ok {
			return err
		}
		i := slices.IndexFunc(changes, func(c refs.Change) bool { return c.Name == clash.Name })
		at := slices.IndexFunc(result.Refs, func(f FetchedRef) bool { return f.Local == clash.Name })
		if i < 0 || at < 0 {
			return err
		}
		changes = slices.Delete(changes, i, i+1)
		result.Refs[at].Clash = clash.With
	}
	return nil
}

// LostObject is an object whose loss was accepted, with the commits and paths that
// it affects.
type LostObject struct {
	*gc.Problem
	Who string // who accepted it on the remote; may be empty
}

// affectedByLoss returns the lost objects with the commits and paths that they
// affect, among those reachable from tips.
func affectedByLoss(ctx context.Context, objects object.Reader, tips []object.Key, lost map[object.Key]string) ([]LostObject, error) {
	var problems []*gc.Problem
	var list []LostObject
	for _, key := range slices.SortedFunc(maps.Keys(lost), object.Key.Compare) {
		p := &gc.Problem{Key: key, Err: &object.AbsentError{Key: key}}
		problems, list = append(problems, p), append(list, LostObject{p, lost[key]})
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, gc.Affected(ctx, objects, nil, tips, problems)
}
