package kist

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// PushOptions say what [Repository.Push] pushes.
type PushOptions struct {
	Remote string
	Refs   []PushRef

	// Lease has a ref only moved if it is, on the remote, where its
	// remote-tracking branch says: nobody has pushed to it since it was looked
	// at. It allows what Force does. Of tags it means that they must be new.
	Lease bool

	// SetUpstream makes the branches that are pushed follow those they are
	// pushed to, instead of only those that follow none.
	SetUpstream bool

	DryRun   bool
	Jobs     int // uploads at once; 0: as package transfer has it
	Progress func(transfer.Progress)
}

// keyPushMerge is the key that, set to false, keeps pushes from merging small packs
// and index files of a remote.
const keyPushMerge = "push.merge"

// PushResult tells what came of a push.
type PushResult struct {
	*transfer.PushResult
	Upstreams map[string]Upstream // branches, by their short names, that follow one now and did not before
}

// Push uploads what refs need and the remote does not have, and moves the
// remote's refs: all of them, or none. A ref that cannot be moved without
// losing commits is an error that matches [transfer.ErrNotFastForward]; one
// whose name is a folder in that of another, [refs.ErrConflict]. The
// remote-tracking branches follow.
func (r *Repository) Push(ctx context.Context, o PushOptions) (*PushResult, error) {
	m, err := r.Remote(o.Remote)
	if err != nil {
		return nil, err
	}
	if len(o.Refs) == 0 {
		return nil, errors.New("nothing to push")
	}
	opened, err := r.openRemote(ctx, m, !o.DryRun)
	if o.DryRun && errors.Is(err, rootlog.ErrEmpty) {
		return firstPush(o.Refs), nil
	}
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	records, intact, err := r.recordsToRead()
	if err == nil && !intact { // send no records; the remote's records count
		var head *rootlog.State
		if head, err = opened.Head(ctx); err == nil {
			records = head.Records
		}
	}
	if err != nil {
		return nil, err
	}
	merge, _ := r.config.Get(keyPushMerge)
	push := transfer.PushOptions{Records: records, DryRun: o.DryRun, Progress: o.Progress, Jobs: o.Jobs, KeepSmall: merge == "false"}
	if push.Head, err = r.defaultBranch(o.Refs); err != nil {
		return nil, err
	}
	seen := map[string]PushRef{}
	for _, p := range o.Refs {
		if was, ok := seen[p.Name]; ok {
			if was.ID != p.ID {
				return nil, fmt.Errorf("two things are to be pushed to %q", p.Name)
			}
			continue
		}
		seen[p.Name] = p
		u := transfer.RefUpdate{Name: p.Name, Force: p.Force}
		if p.Source != "" {
			u.New = object.Key{Kind: p.Kind, ID: p.ID}
		}
		if o.Lease {
			expect, err := r.lastSeen(m.Name, p.Name)
			if err != nil {
				return nil, err
			}
			u.Expect = &expect
		}
		push.Updates = append(push.Updates, u)
	}
	sent, err := opened.Push(ctx, r.objects, push)
	result := &PushResult{PushResult: sent}
	if err != nil || o.DryRun {
		return result, err
	}
	if err := r.track(ctx, m.Name, sent.Refs); err != nil { // the next fetch does it
		r.opt.Warn(fmt.Sprintf("pushed, but the remote-tracking branches could not be updated: %v", err))
	}
	result.Upstreams, err = r.followPushed(ctx, o)
	return result, err
}

// firstPush returns what a push to a remote that has nothing would do. How much
// it would send is not worked out.
func firstPush(list []PushRef) *PushResult {
	result := &PushResult{PushResult: &transfer.PushResult{}}
	for _, p := range list {
		at := transfer.RefResult{Name: p.Name, New: p.ID, Status: transfer.StatusNew}
		if p.Source == "" {
			at.Status = transfer.StatusUpToDate
		}
		result.Refs = append(result.Refs, at)
	}
	return result
}

// defaultBranch returns which of refs becomes the default branch of a remote
// that has none: the one that HEAD is on, or else the first; "" if there is no
// branch among them.
func (r *Repository) defaultBranch(list []PushRef) (string, error) {
	head, err := r.refs.Head()
	if err != nil {
		return "", err
	}
	first := ""
	for _, p := range list {
		switch {
		case p.Source == "" || !strings.HasPrefix(p.Name, refs.Heads):
		case head.Branch != "" && p.Source == refs.Heads+head.Branch:
			return p.Name, nil
		case first == "":
			first = p.Name
		}
	}
	return first, nil
}

// lastSeen returns where a ref of a remote was when it was looked at last.
func (r *Repository) lastSeen(remoteName, ref string) (object.ID, error) {
	branch, ok := strings.CutPrefix(ref, refs.Heads)
	if !ok {
		return object.ID{}, nil
	}
	id, err := r.refs.Get(refs.Remotes + remoteName + "/" + branch)
	if errors.Is(err, refs.ErrNotFound) {
		return object.ID{}, nil
	}
	return id, err
}

// track has remote-tracking branches follow what was pushed.
func (r *Repository) track(ctx context.Context, remoteName string, moved []transfer.RefResult) error {
	return r.publish(ctx, func(ctx context.Context) error {
		var changes []refs.Change
		var now []object.ID
		for _, m := range moved {
			branch, ok := strings.CutPrefix(m.Name, refs.Heads)
			if !ok || m.Err != nil {
				continue
			}
			name := refs.Remotes + remoteName + "/" + branch
			old, err := r.refs.Get(name)
			if err != nil && !errors.Is(err, refs.ErrNotFound) {
				return err
			}
			if old != m.New {
				changes = append(changes, refs.Change{Name: name, Old: old, New: m.New, Reason: "update by push"})
				now = append(now, m.New)
			}
		}
		if err := r.stillThere(ctx, now...); err != nil { // that which was pushed may have lost its name
			return err
		}
		if err := r.changeRefs(ctx, changes); !errors.Is(err, refs.ErrMoved) { // by a fetch, which knows better
			return err
		}
		return nil
	})
}

// changeRefs changes refs. Those to be deleted come first: the name of one may
// be a folder in that of another.
func (r *Repository) changeRefs(ctx context.Context, changes []refs.Change) error {
	for _, deleted := range []bool{true, false} {
		var now []refs.Change
		for _, c := range changes {
			if c.New.IsZero() == deleted {
				now = append(now, c)
			}
		}
		if len(now) == 0 {
			continue
		}
		if err := r.refs.Update(ctx, now, r.who()); err != nil {
			return err
		}
	}
	return nil
}

// followPushed makes branches that were pushed follow those they were pushed
// to, and returns which did not before. It warns if there are too many for the
// configuration.
func (r *Repository) followPushed(ctx context.Context, o PushOptions) (map[string]Upstream, error) {
	set := map[string]Upstream{}
	for _, p := range o.Refs {
		branch, ok := strings.CutPrefix(p.Source, refs.Heads)
		if !ok || !strings.HasPrefix(p.Name, refs.Heads) {
			continue
		}
		u := Upstream{Remote: o.Remote, Ref: p.Name}
		if was, err := r.Upstream(branch); err == nil && (was == u || !o.SetUpstream) {
			continue
		}
		set[branch] = u
	}
	if len(set) == 0 {
		return nil, nil
	}
	err := r.setUpstreams(ctx, set)
	if errors.Is(err, errConfigSize) {
		r.opt.Warn(fmt.Sprintf("%d branches do not follow those they were pushed to: the configuration would be %v", len(set), errConfigSize))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return set, nil
}
