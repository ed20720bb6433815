// Package tracking fetches, pushes, pulls and clones.
package tracking

import (
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
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// FetchOptions are the options of [Fetch].
type FetchOptions struct {
	Remote   string
	Branches []string // short names; nil: all
	NoTags   bool     // do not fetch tags
	Force    bool     // replace local tags that differ
	Prune    bool     // delete remote-tracking branches whose branch is gone
	Waiting  Decision // about waiting records
	DryRun   bool
	Jobs     int // downloads at once; 0: the default of package transfer
	Progress func(transfer.Progress)

	ahead  *cloneAhead      // receives the chunks, unless the remote has purges; nil: none
	opened *transfer.Remote // the remote, if it is open; Fetch closes it
}

// FetchedRef is a ref in the result of a fetch.
type FetchedRef struct {
	Name     string // full, on the remote
	Local    string // full, here: a remote-tracking branch or a tag
	Old, New object.ID
	Forced   bool // it is not a fast-forward
	Unsure   bool // a dry run cannot decide whether it is one
	Kept     bool // a tag with another value here, which stays
}

// FetchResult is the result of a fetch.
type FetchResult struct {
	Refs           []FetchedRef // sorted by local name, unchanged refs included
	Head           string       // the remote's default branch, full name; may be empty
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
	m, err := registry.Find(r, o.Remote)
	if err != nil {
		return nil, err
	}

	opened := o.opened
	if opened == nil {
		if opened, err = registry.Open(ctx, r, m, false); err != nil {
			return nil, err
		}
	}

	defer opened.Close()
	warned := false
	var result *FetchResult
	err = kist.RetryStale(func() error {
		for try := 1; ; try++ {
			head, err := opened.Head(ctx)
			if err != nil {
				return err
			}
			if head.SingleWriter && !m.SingleWriter && !warned {
				warned = true
				r.Options().Warn(fmt.Sprintf("remote %q: %v", m.Name, rootlog.ErrSingleWriter))
			}
			result, err = fetch(ctx, r, opened, head, o)
			if !errors.Is(err, refs.ErrMoved) || try == 3 { // by another fetch
				return err
			}
		}
	})
	return result, err
}

// fetch fetches from a remote that is at head.
func fetch(ctx context.Context, r *kist.Repository, opened *transfer.Remote, head *rootlog.State, o FetchOptions) (*FetchResult, error) {
	wanted, gone, err := wanted(r, head, o)
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
		FetchOptions: o, r: r, head: head, session: r.Objects().Begin(volume.SessionOptions{}),
		judge: j, readable: readable, lost: lost, wanted: wanted,
		received: &transfer.FetchResult{Records: head.Records, Implausible: head.Implausible},
		result:   &FetchResult{Head: head.Head},
	}

	defer f.session.Close()
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
	session  *volume.Session
	judge    *judge
	readable bool        // the records here can be read, so new ones are merged
	have     []object.ID // commits that are complete here
	lost     []object.Key
	wanted   []FetchedRef
	received *transfer.FetchResult
	result   *FetchResult
}

// receive copies the objects and records that are missing here.
func (f *fetching) receive(ctx context.Context, opened *transfer.Remote) error {
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
	if f.have, err = complete(ctx, f.r); err != nil {
		return err
	}

	to := transfer.FetchOptions{
		Want: want, Have: f.have, Records: records, Accept: f.judge.Waits, Lost: f.lost, RefuseLost: f.judge.accept == "never",
		Jobs: f.Jobs, Progress: f.Progress,
	}
	if f.ahead != nil && !purged(f.head.Records) {
		to.BeginChunks = func(ctx context.Context, chunks, bytes int64) {
			f.ahead.begin(ctx, f.session, &FetchResult{Refs: f.wanted, Head: f.head.Head, Objects: chunks, Bytes: bytes})
		}
		to.Chunk = f.ahead.chunk
	}
	if f.received, err = opened.Fetch(ctx, f.session, f.head, to); err != nil {
		return err
	}

	f.result.Objects, f.result.Bytes = f.received.Objects, f.received.Bytes
	if f.result.Lost, err = affectedByLoss(ctx, f.session, want, f.received.Lost); err != nil {
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
		if strings.HasPrefix(ref.Local, refs.Remotes) && !ref.Old.IsZero() && ref.Old != ref.New {
			forward, err := history.IsAncestor(ctx, f.session, ref.Old, ref.New)
			if f.DryRun && errors.Is(err, object.ErrNotFound) {
				f.wanted[i].Unsure = true
				continue
			}
			if err != nil {
				return err
			}
			f.wanted[i].Forced = !forward
		}
	}
	f.result.Refs = append(f.wanted, gone...)
	slices.SortFunc(f.result.Refs, func(a, b FetchedRef) int { return strings.Compare(a.Local, b.Local) })
	f.result.Implausible = f.received.Implausible
	if f.DryRun {
		return f.foresee(ctx)
	}
	return f.session.Publish(ctx, f.publish)
}

// publish writes the accepted losses, the records and the refs.
func (f *fetching) publish(ctx context.Context) error {
	if err := intact.Check(ctx, f.r, f.have...); err != nil {
		return err
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
		absent := &object.NotFoundError{Key: key}
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

// purged reports whether records say of anything that it was purged.
func purged(records *record.Set) bool {
	for r := range records.All() {
		if r.Kind == record.Purge {
			return true
		}
	}
	return false
}

// wanted returns the refs of a remote that are to be fetched, and the
// remote-tracking branches to be deleted.
func wanted(r *kist.Repository, head *rootlog.State, o FetchOptions) (wanted, gone []FetchedRef, err error) {
	tracking := refs.Remotes + o.Remote + "/"
	for name, key := range head.Refs {
		if name == refs.Heads+"HEAD" { // its place here is taken by the remote's default branch
			r.Options().Warn(fmt.Sprintf("a branch called HEAD on %q is left out", o.Remote))
			continue
		}
		f := FetchedRef{Name: name, New: key.ID}
		branch, isBranch := strings.CutPrefix(name, refs.Heads)
		switch {
		case isBranch && (o.Branches == nil || slices.Contains(o.Branches, branch)):
			f.Local = tracking + branch
		case strings.HasPrefix(name, refs.Tags) && !o.NoTags:
			f.Local = name
		default:
			continue
		}
		if err := refs.CheckName(f.Local); err != nil { // somebody else's program has made it
			r.Options().Warn(fmt.Sprintf("a ref on %q is left out: %v", o.Remote, err))
			continue
		}
		if f.Old, err = r.Refs().Get(f.Local); err != nil && !errors.Is(err, refs.ErrNotFound) {
			return nil, nil, err
		}
		f.Kept = !isBranch && !f.Old.IsZero() && f.Old != f.New && !o.Force
		wanted = append(wanted, f)
	}

	for _, branch := range o.Branches {
		if _, ok := head.Refs[refs.Heads+branch]; !ok {
			return nil, nil, &refs.NotFoundError{Name: refs.Heads + branch}
		}
	}
	if !o.Prune {
		return wanted, nil, nil
	}

	gone, err = pruned(r, head, tracking)
	return wanted, gone, err
}

// pruned returns the remote-tracking branches below tracking whose branch is gone.
func pruned(r *kist.Repository, head *rootlog.State, tracking string) (gone []FetchedRef, err error) {
	list, err := r.Refs().List(tracking)
	for _, ref := range list {
		name := refs.Heads + strings.TrimPrefix(ref.Name, tracking)
		if _, ok := head.Refs[name]; !ok && ref.Target == "" {
			gone = append(gone, FetchedRef{Name: name, Local: ref.Name, Old: ref.ID})
		}
	}
	return gone, err
}

// complete returns the commits of HEAD and of all refs, which are complete here. It
// leaves out commits whose loss was accepted.
func complete(ctx context.Context, r *kist.Repository) ([]object.ID, error) {
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
		if missing, ok := errors.AsType[*object.NotFoundError](err); ok && r.Objects().IsLost(missing.Key) {
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
	var changes []refs.Change
	for _, f := range result.Refs {
		c := refs.Change{Name: f.Local, Old: f.Old, New: f.New, Reason: "fetch"}
		switch {
		case f.Kept || f.Old == f.New:
			continue
		case f.Forced:
			c.Reason = "fetch: forced-update"
		case !f.Old.IsZero() && !f.New.IsZero():
			c.Reason = "fetch: fast-forward"
		}
		changes = append(changes, c)
	}
	if err := changeRefs(ctx, r, changes); err != nil {
		return err
	}

	tracking := refs.Remotes + o.Remote + "/"
	branch, ok := strings.CutPrefix(result.Head, refs.Heads)
	if _, err := r.Refs().Get(tracking + branch); !ok || err != nil {
		return nil
	}
	return r.Refs().SetRemoteHead(ctx, tracking+"HEAD", tracking+branch)
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
		p := &gc.Problem{Key: key, Err: &object.NotFoundError{Key: key}}
		problems, list = append(problems, p), append(list, LostObject{p, lost[key]})
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, gc.Affected(ctx, objects, nil, tips, problems)
}
