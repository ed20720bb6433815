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

	// chunks is as in transfer.FetchOptions. Its further arguments are a reader
	// for all other objects and the result so far. Fetch does not call it if
	// anything was purged on the remote.
	chunks func(ctx context.Context, objects object.Reader, result *FetchResult) func(id object.ID, data []byte)

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
func fetch(ctx context.Context, r *kist.Repository, opened *transfer.Remote, head *rootlog.State, o FetchOptions) (result *FetchResult, err error) {
	result = &FetchResult{Head: head.Head}
	wanted, gone, err := wanted(r, head, o)
	if err != nil {
		return nil, err
	}
	var want []object.Key
	for _, f := range wanted {
		if !f.Kept && f.Old != f.New {
			want = append(want, head.Refs[f.Name])
		}
	}
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	var have []object.ID
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
	fetched := &transfer.FetchResult{Records: head.Records, Implausible: head.Implausible}
	lost, err := r.Objects().Lost(ctx)
	if err != nil {
		return nil, err
	}
	defer func(before []object.Key) {
		if err != nil { // another try names the rest again
			r.Objects().SetLost(before)
		}
	}(lost)
	if (len(want) > 0 || len(head.Records.Newer(records)) > 0 || len(lost) > 0) && !o.DryRun {
		if have, err = complete(ctx, r); err != nil {
			return nil, err
		}
		to := transfer.FetchOptions{
			Want: want, Have: have, Records: records, Accept: j.Waits, Lost: lost, RefuseLost: j.accept == "never",
			Jobs: o.Jobs, Progress: o.Progress,
		}
		if o.chunks != nil && !purged(head.Records) {
			to.Chunks = func(ctx context.Context, chunks, bytes int64) func(object.ID, []byte) {
				return o.chunks(ctx, session, &FetchResult{Refs: wanted, Head: head.Head, Objects: chunks, Bytes: bytes})
			}
		}
		fetched, err = opened.Fetch(ctx, session, head, to)
		if err != nil {
			return nil, err
		}
		result.Objects, result.Bytes = fetched.Objects, fetched.Bytes
		if result.Lost, err = affectedByLoss(ctx, session, want, fetched.Lost); err != nil {
			return nil, err
		}
		for _, gap := range result.Lost {
			lost = append(slices.Clip(lost), gap.Key)
		}
		r.Objects().SetLost(lost) // so that history can be followed
	}
	for i, f := range wanted {
		if strings.HasPrefix(f.Local, refs.Remotes) && !f.Old.IsZero() && f.Old != f.New {
			forward, err := history.IsAncestor(ctx, session, f.Old, f.New)
			if o.DryRun && errors.Is(err, object.ErrNotFound) {
				wanted[i].Unsure = true
				continue
			}
			if err != nil {
				return nil, err
			}
			wanted[i].Forced = !forward
		}
	}
	result.Refs = append(wanted, gone...)
	slices.SortFunc(result.Refs, func(a, b FetchedRef) int { return strings.Compare(a.Local, b.Local) })
	result.Implausible = fetched.Implausible
	if o.DryRun {
		result.Received, err = j.wouldReceive(ctx, head.Records)
		return result, err
	}
	return result, session.Publish(ctx, func(ctx context.Context) error {
		if err := intact.Check(ctx, r, have...); err != nil {
			return err
		}
		if len(result.Lost) > 0 {
			if err := disk.WriteFile(filepath.Join(r.Dir(), kist.LostFile), kist.EncodeLost(lost)); err != nil {
				return err
			}
		}
		if readable {
			if err := j.note(ctx, fetched, o.Waiting, result); err != nil {
				return err
			}
		}
		return noteFetched(ctx, r, o, result)
	})
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
	list, err := r.Refs().List(tracking)
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range list {
		name := refs.Heads + strings.TrimPrefix(ref.Name, tracking)
		if _, ok := head.Refs[name]; !ok && ref.Target == "" {
			gone = append(gone, FetchedRef{Name: name, Local: ref.Name, Old: ref.ID})
		}
	}
	return wanted, gone, nil
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
		var missing *object.NotFoundError
		if errors.As(err, &missing) && r.Objects().IsLost(missing.Key) {
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
