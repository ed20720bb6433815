package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// PushOptions say what [Push] pushes.
type PushOptions struct {
	Remote string
	Refs   []registry.PushRef

	// Lease moves a ref only if the remote's value equals the remote-tracking
	// branch, that is, if there was no other push since the last fetch. It permits
	// everything that Force permits. Tags must be new.
	Lease bool

	// SetUpstream sets the upstream of all pushed branches, not only of those
	// without one.
	SetUpstream bool

	// FollowTags also pushes the annotated tags here that the remote does not have, and that
	// name a commit which is pushed, or one of its ancestors.
	FollowTags bool

	// Prune are prefixes of refs, such as refs/heads/. A ref of the remote is deleted if the
	// repository does not have it.
	Prune []string

	// ConfirmAfter is that of [transfer.PushOptions].
	ConfirmAfter time.Duration

	Ahead *EarlyPush // sent objects before this push, which ends it; or nil

	opened *transfer.Remote // the remote, if it is open; Push closes it
	head   *rootlog.State   // that opened has just read, or nil
	expect *object.ID       // if not nil, the present value of each ref

	DryRun   bool
	Jobs     int // uploads at once; 0: the default of package transfer
	Progress func(transfer.Progress)
}

// PushResult is the result of a push.
type PushResult struct {
	*transfer.PushResult
	Lost      []LostObject             // objects missing on the remote, because they are lost here
	Upstreams map[string]kist.Upstream // new upstreams, by short names of branches
}

// Push uploads the objects that refs need and the remote does not have. Then it moves
// the remote's refs, all of them or none, and the remote-tracking branches. If moving
// a ref would lose commits, the error matches [transfer.ErrNotFastForward]. If a name
// would be a folder in another name, it matches [refs.ErrConflict]. Push leaves out
// objects whose loss was accepted here, and the remote lists them as lost.
func Push(ctx context.Context, r *kist.Repository, o PushOptions) (*PushResult, error) {
	m, err := registry.Resolve(r, o.Remote)
	if err != nil {
		return nil, err
	}
	if len(o.Refs) == 0 {
		return nil, errors.New("nothing to push")
	}
	if m.Name == "" && o.Lease {
		return nil, errors.New("a lease needs the name of a remote: kist remembers the branches of those only")
	}

	opened, err := openForPush(ctx, r, m, o)
	if o.DryRun && errors.Is(err, rootlog.ErrEmpty) {
		o.Refs, err = withOthers(ctx, r, nil, o)
		return firstPush(o.Refs), err
	}
	if err != nil {
		return nil, err
	}

	defer opened.Close()
	if o.Refs, err = withOthers(ctx, r, opened, o); err != nil {
		return nil, err
	}
	records, err := sentRecords(ctx, r, opened)
	if err != nil {
		return nil, err
	}

	push, err := optionsOf(r, o)
	if err != nil {
		return nil, err
	}
	push.Records = records

	local, err := localFor(r, m.Name, &push)
	if err != nil {
		return nil, err
	}
	sent, err := opened.Push(ctx, local, push)
	result := &PushResult{PushResult: sent}
	merge, _ := r.Config().Get(kist.KeyPushMerge)
	if err == nil && merge != "false" && sent.Appended != nil && o.expect == nil { // a keep ref waits for other pushes
		// The push has succeeded, even if the merge fails.
		_ = collect.MergeSmall(ctx, opened, sent.Appended)
	}

	if err == nil {
		result.Lost, err = affectedByPush(ctx, r, sent, push.Updates)
	}
	if err != nil || o.DryRun || m.Name == "" {
		return result, err
	}
	afterPush(ctx, r, o, sent)

	result.Upstreams, err = followPushed(ctx, r, o)
	return result, err
}

// optionsOf returns the options of a push, without the records.
func optionsOf(r *kist.Repository, o PushOptions) (push transfer.PushOptions, err error) {
	push = transfer.PushOptions{DryRun: o.DryRun, Progress: o.Progress, Jobs: o.Jobs, ConfirmAfter: o.ConfirmAfter, At: o.head}
	if push.Head, err = defaultBranch(r, o.Refs); err == nil {
		push.Updates, err = updates(r, o)
	}
	return push, err
}

// localFor returns the store that a push to a remote reads. In a lazy repository, it may leave out content that is away.
func localFor(r *kist.Repository, name string, push *transfer.PushOptions) (transfer.Local, error) {
	if !r.Config().IsLazy() {
		return r.Objects(), nil
	}
	promised, err := kist.NewPromised(r)
	push.KeepsAway = func(ctx context.Context, head *rootlog.State) (bool, error) { return keepsPromise(ctx, r, name, head) }
	return lazyLocal{r.Objects(), promised}, err
}

// afterPush moves the remote-tracking branches, and renews the keep ref of the repository. An error is a warning: the
// push has succeeded.
func afterPush(ctx context.Context, r *kist.Repository, o PushOptions, sent *transfer.PushResult) {
	if err := track(ctx, r, o.Remote, sent.Refs); err != nil { // the next fetch does it
		r.Options().Warn(fmt.Sprintf("pushed, but the remote-tracking branches could not be updated: %v", err))
	}
	if o.expect != nil { // this was the keep ref
		return
	}
	if err := RenewKeep(ctx, r, o.Remote, sent.Appended); err != nil {
		r.Options().Warn(fmt.Sprintf("pushed, but the remote does not keep the content that was given away: %v", err))
	}
}

// affectedByPush returns the objects that a push did not send because their loss was accepted,
// with the commits and paths that they affect.
func affectedByPush(ctx context.Context, r *kist.Repository, sent *transfer.PushResult, updates []transfer.RefUpdate) ([]LostObject, error) {
	if len(sent.Lost) == 0 {
		return nil, nil
	}
	lost := map[object.Key]string{}
	for _, key := range sent.Lost {
		lost[key] = ""
	}
	var tips []object.Key
	for _, u := range updates {
		tips = append(tips, u.New)
	}
	return affectedByLoss(ctx, r.Objects(), tips, lost)
}

// withOthers returns the refs to push: also those of FollowTags and Prune. Opened is nil if
// the remote is empty.
func withOthers(ctx context.Context, r *kist.Repository, opened *transfer.Remote, o PushOptions) ([]registry.PushRef, error) {
	list := o.Refs
	if !o.FollowTags && len(o.Prune) == 0 {
		return list, nil
	}
	head := &rootlog.State{}
	if opened != nil {
		var err error
		if head, err = transfer.HeadToWrite(ctx, opened); err != nil {
			return nil, err
		}
	}
	if o.FollowTags {
		tags, err := tagsOf(ctx, r, head, o.Refs)
		if err != nil {
			return nil, err
		}
		list = slices.Concat(list, tags)
	}
	for _, name := range slices.Sorted(maps.Keys(head.Refs)) {
		if !slices.ContainsFunc(o.Prune, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
			slices.ContainsFunc(list, func(p registry.PushRef) bool { return p.Name == name }) {
			continue
		}
		if _, err := r.Refs().Get(name); errors.Is(err, refs.ErrNotFound) {
			list = append(list, registry.PushRef{Name: name})
		} else if err != nil && !errors.As(err, new(*refs.NameError)) { // no local branch can have such a name
			return nil, err
		}
	}
	return list, nil
}

// tagsOf returns the annotated tags here that a remote at head does not have, and that name
// an ancestor of a pushed commit.
func tagsOf(ctx context.Context, r *kist.Repository, head *rootlog.State, pushed []registry.PushRef) (list []registry.PushRef, err error) {
	tags, err := r.Refs().List(refs.Tags)
	if err != nil {
		return nil, err
	}
	for _, tag := range tags {
		if _, has := head.Refs[tag.Name]; has {
			continue
		}
		p, err := registry.ParsePush(ctx, r, tag.Name)
		if errors.Is(err, object.ErrNotFound) || err == nil && p.Kind != object.KindTag {
			continue
		}
		if err != nil {
			return nil, err
		}
		target, err := refs.Peel(ctx, r.Objects(), p.ID)
		if err != nil {
			return nil, err
		}
		for _, ref := range pushed {
			if ref.Source == "" {
				continue
			}
			tip, err := refs.Peel(ctx, r.Objects(), ref.ID)
			if err != nil {
				return nil, err
			}
			in, err := history.IsAncestor(ctx, r.Objects(), target, tip)
			if err != nil {
				return nil, err
			}
			if in {
				list = append(list, p)
				break
			}
		}
	}
	return list, nil
}

// openForPush returns the opened remote: that of o, or that to which objects were sent ahead, if any.
func openForPush(ctx context.Context, r *kist.Repository, m registry.Remote, o PushOptions) (*transfer.Remote, error) {
	if o.opened != nil {
		return o.opened, nil
	}
	if o.Ahead != nil && o.Ahead.Remote == m.Name {
		if opened := o.Ahead.end(ctx); opened != nil {
			return opened, nil
		}
	} else {
		o.Ahead.Close()
	}
	opened, err := registry.Open(ctx, r, m, !o.DryRun)
	if err != nil {
		return nil, err
	}
	if err := remote.CheckWritable(opened.Backend()); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// sentRecords returns the records to send. If those here are unreadable, they are the
// remote's own, so that nothing is sent.
func sentRecords(ctx context.Context, r *kist.Repository, opened *transfer.Remote) (*record.Set, error) {
	records, readable, err := r.RecordsOrEmpty()
	if err != nil || readable {
		return records, err
	}
	head, err := transfer.HeadToWrite(ctx, opened)
	if err != nil {
		return nil, err
	}
	return head.Records, nil
}

// updates returns the changes of the remote's refs.
func updates(r *kist.Repository, o PushOptions) (list []transfer.RefUpdate, err error) {
	seen := map[string]registry.PushRef{}
	for _, p := range o.Refs {
		if was, ok := seen[p.Name]; ok {
			if was.ID != p.ID {
				return nil, fmt.Errorf("two different values for %q", p.Name)
			}
			continue
		}
		seen[p.Name] = p
		u := transfer.RefUpdate{Name: p.Name, Force: p.Force, Expect: o.expect}
		if p.Source != "" {
			u.New = object.Key{Kind: p.Kind, ID: p.ID}
		}
		if o.Lease {
			expect, err := lastSeen(r, o.Remote, p.Name)
			if err != nil {
				return nil, err
			}
			u.Expect = &expect
		}
		list = append(list, u)
	}
	return list, nil
}

// firstPush returns the result of a dry run to an empty remote, without the amount to
// send.
func firstPush(list []registry.PushRef) *PushResult {
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
func defaultBranch(r *kist.Repository, list []registry.PushRef) (string, error) {
	head, err := r.Refs().Head()
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

// lastSeen returns the last known value of a remote's ref.
func lastSeen(r *kist.Repository, remoteName, ref string) (object.ID, error) {
	branch, ok := strings.CutPrefix(ref, refs.Heads)
	if !ok {
		return object.ID{}, nil
	}
	id, err := r.Refs().Get(refs.Remotes + remoteName + "/" + branch)
	if errors.Is(err, refs.ErrNotFound) {
		return object.ID{}, nil
	}
	return id, err
}

// track moves remote-tracking branches to the pushed commits.
func track(ctx context.Context, r *kist.Repository, remoteName string, moved []transfer.RefResult) error {
	var deleted, changed []refs.Change
	for _, m := range moved {
		branch, ok := strings.CutPrefix(m.Name, refs.Heads)
		if !ok || m.Err != nil {
			continue
		}
		name := refs.Remotes + remoteName + "/" + branch
		old, err := r.Refs().Get(name)
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return err
		}
		change := refs.Change{Name: name, Old: old, New: m.New, Reason: "update by push"}
		switch {
		case old == m.New:
		case m.New.IsZero():
			deleted = append(deleted, change)
		default:
			changed = append(changed, change)
		}
	}

	err := r.Publish(ctx, func(tx *kist.Tx) {
		tx.Move(deleted...) // the name of one may be a folder in that of another
		tx.Move(changed...)
	})
	if errors.Is(err, refs.ErrMoved) { // a fetch moved it to a newer value
		return nil
	}
	return err
}

// followPushed sets the upstreams of pushed branches. Without SetUpstream, a branch
// with an upstream keeps it. It returns the new upstreams by branch, and warns if there
// are too many for the configuration.
func followPushed(ctx context.Context, r *kist.Repository, o PushOptions) (map[string]kist.Upstream, error) {
	set := map[string]kist.Upstream{}
	for _, p := range o.Refs {
		branch, ok := strings.CutPrefix(p.Source, refs.Heads)
		if !ok || !strings.HasPrefix(p.Name, refs.Heads) {
			continue
		}
		u := kist.Upstream{Remote: o.Remote, Ref: p.Name}
		if was, err := kist.UpstreamOf(r, branch); err == nil && (was == u || !o.SetUpstream) {
			continue
		}
		set[branch] = u
	}
	if len(set) == 0 {
		return nil, nil
	}

	err := kist.SetUpstreams(ctx, r, set)
	if errors.Is(err, kist.ErrConfigSize) {
		r.Options().Warn(fmt.Sprintf("%d branches do not follow those they were pushed to: the configuration would be %v", len(set), kist.ErrConfigSize))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return set, nil
}
