package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// ErrProtected is matched by every [*ProtectedError].
var ErrProtected = errors.New("the content cannot expire")

// ProtectedError means that a commit's content may not expire. It matches
// [ErrProtected].
type ProtectedError struct {
	Commit object.ID
	Why    []string // the reasons: "branch main", "held"
}

func (e *ProtectedError) Error() string {
	return fmt.Sprintf("the content of %s cannot expire: %s", e.Commit.Short(), strings.Join(e.Why, ", "))
}

// Is makes errors.Is(err, ErrProtected) true.
func (e *ProtectedError) Is(target error) bool { return target == ErrProtected }

// ExpireOptions select the commits whose content expires.
type ExpireOptions struct {
	// Policy selects the commits of each branch to keep. It needs a rule,
	// unless there are Revs.
	Policy   Policy
	Branches []string // short names of the branches to apply it to; none: all

	Revs   []string // expire these commits and apply no policy
	DryRun bool     // change nothing
}

// Considered is a commit that a policy decided on.
type Considered struct {
	ID       object.ID
	Commit   *object.Commit
	Branches []string // branches that have it, among those the policy is applied to
	Kept     []string // the reasons to keep its content; none: it expires
}

// ExpireResult is the result of [Expire], also of a dry run.
type ExpireResult struct {
	Expired []Considered // newest first
	Kept    []Considered // newest first
	Already int          // considered commits that had expired before
}

// Expire makes the content of commits expire that a policy does not keep. The
// commits stay, but garbage collections may remove their files, here and on
// remotes that receive the records. Until then, [Unexpire] can undo it.
//
// The policy is applied to each branch by itself, to its own commits that have
// not expired: those on its line of first parents. A merged commit is kept, or
// expires, with the merge on this line. A commit expires if no branch keeps
// it. Whatever the policy, these commits are kept:
//
//   - commits reachable from a branch that the policy is not applied to;
//   - commits that HEAD, a branch, a tag or a remote-tracking branch names;
//   - held commits, and the commits that a merge or revert in progress needs;
//   - stashes, and the commits on which they were made;
//   - forks between pushed and unpushed history.
//
// If Revs name such a commit, nothing is done, and the error is a
// [*ProtectedError].
func Expire(ctx context.Context, r *kist.Repository, o ExpireOptions) (*ExpireResult, error) {
	if err := o.Policy.Check(); err != nil {
		return nil, err
	}
	if o.Policy.IsEmpty() == (len(o.Revs) == 0) {
		return nil, errors.New("expire needs either a policy or commits")
	}

	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}

	e := &expireRun{r: r, records: set.At(r.Options().Now())} // holds that are over keep nothing
	if e.protected, err = Protected(ctx, r, e.records); err != nil {
		return nil, err
	}
	if len(o.Revs) > 0 {
		err = e.expireNamed(ctx, o.Revs)
	} else {
		err = e.byPolicy(ctx, o)
	}
	if err != nil || o.DryRun || len(e.result.Expired) == 0 {
		return &e.result, err
	}

	return &e.result, recordExpired(ctx, r, &e.result, o.Policy.String(), len(o.Revs) > 0)
}

// expireRun is the state of one Expire.
type expireRun struct {
	r         *kist.Repository
	records   *record.Effects
	protected map[object.ID][]string // see [Protected]
	tags      map[object.ID][]string
	all       map[object.ID]*Considered // nil: expired before
	result    ExpireResult
}

// expireNamed expires the commits that revisions name.
func (e *expireRun) expireNamed(ctx context.Context, revs []string) error {
	seen := map[object.ID]bool{}
	for _, rev := range revs {
		id, c, err := e.r.ReadCommit(ctx, rev)
		if err != nil {
			return err
		}
		_, expired := e.records.Expired(id)
		switch {
		case seen[id]:
		case expired:
			e.result.Already++
		case len(e.protected[id]) > 0:
			return &ProtectedError{Commit: id, Why: e.protected[id]}
		default:
			e.result.Expired = append(e.result.Expired, Considered{ID: id, Commit: c})
		}
		seen[id] = true
	}

	return nil
}

// byPolicy expires the commits that the policy keeps on no branch.
func (e *expireRun) byPolicy(ctx context.Context, o ExpireOptions) error {
	tips, others, err := expireTips(e.r, o.Branches)
	if err != nil {
		return err
	}
	if e.tags, err = tagsOf(ctx, e.r); err != nil {
		return err
	}

	e.all = map[object.ID]*Considered{}
	for _, branch := range tips {
		if err := e.applyToBranch(ctx, branch, &o.Policy); err != nil {
			return err
		}
	}

	for _, branch := range others {
		for c, err := range history.Walk(ctx, e.r.Objects(), []object.ID{branch.ID}, history.Options{}) {
			if err != nil {
				return err
			}
			if considered := e.all[c.ID]; considered != nil {
				considered.addReasons("branch " + strings.TrimPrefix(branch.Name, refs.Heads))
			}
		}
	}

	for id, c := range e.all {
		if c == nil {
			e.result.Already++
			delete(e.all, id)
			continue
		}
		c.addReasons(e.protected[id]...)
	}

	newestFirst := func(a, b *Considered) int {
		return cmp.Or(b.Commit.Committer.Time.Compare(a.Commit.Committer.Time), a.ID.Compare(b.ID))
	}

	for _, c := range slices.SortedFunc(maps.Values(e.all), newestFirst) {
		if len(c.Kept) == 0 {
			e.result.Expired = append(e.result.Expired, *c)
		} else {
			e.result.Kept = append(e.result.Kept, *c)
		}
	}

	return nil
}

// applyToBranch applies the policy to a branch. The rules consider only the branch's
// own commits, on its line of first parents. So a commit of another branch never
// takes the place of one of them. Merged commits are kept, or expire, with their
// merge.
func (e *expireRun) applyToBranch(ctx context.Context, branch refs.Ref, p *Policy) error {
	name := strings.TrimPrefix(branch.Name, refs.Heads)
	all := map[object.ID]history.Commit{}
	for c, err := range history.Walk(ctx, e.r.Objects(), []object.ID{branch.ID}, history.Options{}) {
		if err != nil {
			return err
		}
		all[c.ID] = c
		if _, expired := e.records.Expired(c.ID); expired {
			e.all[c.ID] = nil
			continue
		}
		if e.all[c.ID] == nil {
			e.all[c.ID] = &Considered{ID: c.ID, Commit: c.Commit}
		}
		e.all[c.ID].Branches = append(e.all[c.ID].Branches, name)
	}

	if len(all) == 0 { // the loss of the branch's commit was accepted
		return nil
	}

	line := []object.ID{branch.ID} // first parents, newest first
	for c := all[branch.ID]; len(c.Parents) > 0; c = all[c.Parents[0]] {
		line = append(line, c.Parents[0])
	}

	var own []*Considered
	var commits []Candidate
	for _, id := range line {
		if c := e.all[id]; c != nil {
			own = append(own, c)
			commits = append(commits, Candidate{Time: c.Commit.Committer.When(), Tags: e.tags[id]})
		}
	}

	now := e.r.Options().Date()
	kept := map[object.ID]bool{}
	for i, reasons := range p.Apply(commits, now) {
		own[i].addReasons(reasons...)
		kept[own[i].ID] = len(reasons) > 0
	}

	brought, err := broughtIn(ctx, all, line)
	if err != nil {
		return err
	}
	for id, merge := range brought {
		switch c := e.all[id]; {
		case c == nil:
		case kept[merge]:
			c.addReasons("merged by " + merge.Short())
		case c.Commit.Committer.When().After(now):
			c.addReasons("dated in the future")
		}
	}

	return nil
}

// broughtIn returns, for each commit off the line of first parents, the commit
// of the line that merged it: the oldest one that reaches it.
func broughtIn(ctx context.Context, all map[object.ID]history.Commit, line []object.ID) (map[object.ID]object.ID, error) {
	by := map[object.ID]object.ID{}
	on := make(map[object.ID]bool, len(line))
	for _, id := range line {
		on[id] = true
	}

	for _, merge := range slices.Backward(line) {
		err := graph.Walk(ctx, on, all[merge].Parents, func(id object.ID) ([]object.ID, error) {
			by[id] = merge
			return all[id].Parents, nil
		})
		if err != nil {
			return nil, err
		}
	}

	return by, nil
}

func (c *Considered) addReasons(reasons ...string) {
	for _, reason := range reasons {
		if !slices.Contains(c.Kept, reason) {
			c.Kept = append(c.Kept, reason)
		}
	}
}

// expireTips returns the branches that a policy is applied to, and the others.
func expireTips(r *kist.Repository, names []string) (tips, others []refs.Ref, err error) {
	for _, name := range names {
		if _, err := r.Refs().Get(refs.Heads + name); err != nil {
			return nil, nil, err
		}
	}

	list, err := r.Refs().List(refs.Heads)
	for _, ref := range list {
		if len(names) == 0 || slices.Contains(names, strings.TrimPrefix(ref.Name, refs.Heads)) {
			tips = append(tips, ref)
		} else {
			others = append(others, ref)
		}
	}

	return tips, others, err
}

// tagsOf returns the names of the tags that each commit has.
func tagsOf(ctx context.Context, r *kist.Repository) (map[object.ID][]string, error) {
	list, err := r.Refs().List(refs.Tags)
	if err != nil {
		return nil, err
	}

	tags := map[object.ID][]string{}
	for _, ref := range list {
		id, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ref.Name, err)
		}
		tags[id] = append(tags[id], strings.TrimPrefix(ref.Name, refs.Tags))
	}

	return tags, nil
}

// Protected returns the commits whose content may not expire, with the
// reasons: names, forks, stashes, the operation in progress and holds in records.
func Protected(ctx context.Context, r *kist.Repository, records *record.Effects) (map[object.ID][]string, error) {
	why := map[object.ID][]string{}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	if head.Branch == "" {
		why[head.ID] = append(why[head.ID], "HEAD")
	}

	for _, kind := range []struct{ prefix, what string }{{refs.Heads, "branch "}, {refs.Remotes, "remote-tracking branch "}} {
		list, err := r.Refs().List(kind.prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			why[ref.ID] = append(why[ref.ID], kind.what+strings.TrimPrefix(ref.Name, kind.prefix))
		}
	}

	tags, err := tagsOf(ctx, r)
	if err != nil {
		return nil, err
	}

	for id, names := range tags {
		for _, name := range names {
			why[id] = append(why[id], "tag "+name)
		}
	}

	forks, err := gc.Forks(ctx, r)
	if err != nil {
		return nil, err
	}

	for id, reasons := range forks {
		if len(why[id]) == 0 { // otherwise a name keeps it
			why[id] = reasons
		}
	}

	stashes, err := gc.Stashes(ctx, r)
	if err != nil {
		return nil, err
	}

	for id, reasons := range stashes {
		why[id] = append(why[id], reasons...)
	}

	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	if state.Operation != "" {
		for _, id := range state.Commits() {
			why[id] = append(why[id], fmt.Sprintf("a %s is under way", state.Operation))
		}
	}
	for _, id := range records.Holds() {
		why[id] = append(why[id], "held")
	}

	return why, nil
}

// recordExpired writes the records of the expired commits. It leaves out
// commits that were protected meanwhile; if the user named such a commit, the
// error is a [*ProtectedError].
func recordExpired(ctx context.Context, r *kist.Repository, result *ExpireResult, policy string, named bool) error {
	return r.Records().Update(ctx, func(set *record.Set) error {
		protected, err := Protected(ctx, r, set.At(r.Options().Now()))
		if err != nil {
			return err
		}
		var expired []Considered
		for _, c := range result.Expired {
			why := protected[c.ID]
			if len(why) > 0 && named {
				return &ProtectedError{Commit: c.ID, Why: why}
			}
			if len(why) > 0 {
				c.addReasons(why...)
				result.Kept = append(result.Kept, c)
				continue
			}
			key := object.Key{Kind: object.KindCommit, ID: c.ID}
			err := set.Switch(Stamp(r, record.Record{Kind: record.Expire, Key: key, On: true, Reason: policy}))
			if err != nil && named {
				return err
			}
			if err != nil {
				c.addReasons(record.ErrFinal.Error())
				result.Kept = append(result.Kept, c)
				continue
			}
			expired = append(expired, c)
		}
		result.Expired = expired
		return nil
	})
}

// ErrNotExpired means that the content of a commit has not expired.
var ErrNotExpired = errors.New("the content has not expired")

// Expirations returns the records of all commits whose content has expired,
// sorted by ID.
func Expirations(r *kist.Repository) ([]record.Record, error) {
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	records := set.View()
	var list []record.Record
	for rec := range set.All() {
		if _, expired := records.Expired(rec.Key.ID); expired && rec.Kind == record.Expire {
			list = append(list, rec)
		}
	}

	return list, nil
}

// Unexpire undoes the expiration of commits and returns them. If a part of
// their content is missing, nothing is done, and the error is a
// [*kist.GoneError].
//
// Without revs, it restores all expired commits with complete content. If others
// exist, the result is the restored commits and a [*kist.GoneError] with the
// rest.
func Unexpire(ctx context.Context, r *kist.Repository, revs []string) (done []object.ID, err error) {
	var ids []object.ID
	for _, rev := range revs {
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}

	all := len(revs) == 0
	if all {
		list, err := Expirations(r)
		if err != nil {
			return nil, err
		}
		for _, rec := range list {
			ids = append(ids, rec.Key.ID)
		}
	}

	gone := &kist.GoneError{}
	// Meanwhile, no gc removes objects.
	err = r.Publish(ctx, kist.Step(func(ctx context.Context) error {
		return r.Records().Update(ctx, func(set *record.Set) error {
			found := kist.NewInventory(r, set.At(r.Options().Now()))
			done, gone.Commits = nil, nil
			for _, id := range ids {
				rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: id})
				if !rec.On && all { // another process was faster
					continue
				}
				if !rec.On {
					return fmt.Errorf("commit %s: %w", id.Short(), ErrNotExpired)
				}
				missing, err := CountMissing(ctx, r, found, id)
				if err != nil {
					return err
				}
				if missing > 0 {
					gone.Commits = append(gone.Commits, kist.IncompleteCommit{Commit: id, Objects: missing})
					continue
				}
				rec.On = false
				if err := set.Switch(Stamp(r, rec)); err != nil {
					return err
				}
				done = append(done, id)
			}
			if len(gone.Commits) > 0 && !all {
				return gone
			}
			return nil
		})
	}))
	if err != nil {
		return nil, err
	}
	if len(gone.Commits) > 0 {
		return done, gone
	}
	return done, nil
}

// CountMissing returns the number of missing objects in a commit's content,
// including the commit.
func CountMissing(ctx context.Context, r *kist.Repository, found *kist.Inventory, id object.ID) (int, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return found.CountMissing(ctx, c)
}
