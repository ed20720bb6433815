package retain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/operation"
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
//   - held commits, and those that a merge or revert in progress needs;
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

	e := &expiring{r: r, records: set.At(r.Options().Now())} // holds that are over keep nothing
	if len(o.Revs) > 0 {
		err = e.named(ctx, o.Revs)
	} else {
		err = e.byPolicy(ctx, o)
	}
	if err != nil || o.DryRun || len(e.result.Expired) == 0 {
		return &e.result, err
	}

	return &e.result, recordExpired(ctx, r, &e.result, o.Policy.String(), len(o.Revs) > 0)
}

// expiring is the state of one Expire.
type expiring struct {
	r       *kist.Repository
	records *record.View
	tags    map[object.ID][]string
	all     map[object.ID]*Considered // nil: expired before
	result  ExpireResult
}

// named expires the commits that revisions name.
func (e *expiring) named(ctx context.Context, revs []string) error {
	protected, err := Protected(ctx, e.r)
	if err != nil {
		return err
	}

	seen := map[object.ID]bool{}
	for _, rev := range revs {
		id, c, err := e.r.ReadCommit(ctx, rev)
		if err != nil {
			return err
		}
		if _, held := e.records.Held(id); held {
			protected[id] = append(protected[id], "held")
		}
		_, expired := e.records.Expired(id)
		switch {
		case seen[id]:
		case expired:
			e.result.Already++
		case len(protected[id]) > 0:
			return &ProtectedError{Commit: id, Why: protected[id]}
		default:
			e.result.Expired = append(e.result.Expired, Considered{ID: id, Commit: c})
		}
		seen[id] = true
	}

	return nil
}

// byPolicy expires the commits that the policy keeps on no branch.
func (e *expiring) byPolicy(ctx context.Context, o ExpireOptions) error {
	protected, err := Protected(ctx, e.r)
	if err != nil {
		return err
	}

	tips, others, err := expireTips(e.r, o.Branches)
	if err != nil {
		return err
	}
	if e.tags, err = tagsOf(ctx, e.r); err != nil {
		return err
	}

	e.all = map[object.ID]*Considered{}
	for _, branch := range tips {
		if err := e.branch(ctx, branch, &o.Policy); err != nil {
			return err
		}
	}

	for _, branch := range others {
		for c, err := range history.Walk(ctx, e.r.Objects(), []object.ID{branch.ID}, history.Options{}) {
			if err != nil {
				return err
			}
			if considered := e.all[c.ID]; considered != nil {
				considered.keep("branch " + strings.TrimPrefix(branch.Name, refs.Heads))
			}
		}
	}

	for id, c := range e.all {
		if c == nil {
			e.result.Already++
			delete(e.all, id)
			continue
		}
		c.keep(protected[id]...)
		if _, held := e.records.Held(id); held {
			c.keep("held")
		}
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

func newestFirst(a, b *Considered) int {
	if c := b.Commit.Committer.Time.Compare(a.Commit.Committer.Time); c != 0 {
		return c
	}
	return strings.Compare(a.ID.String(), b.ID.String())
}

func (c *Considered) keep(reasons ...string) {
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
// reasons: names, forks and the operation in progress. Holds are not included.
func Protected(ctx context.Context, r *kist.Repository) (map[object.ID][]string, error) {
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

	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	if state.Operation != "" {
		for _, id := range append(slices.Clone(state.Rest), state.Other, state.Start, state.Left) {
			why[id] = append(why[id], fmt.Sprintf("a %s is under way", state.Operation))
		}
	}

	return why, nil
}

// recordExpired writes the records of the expired commits. It leaves out
// commits that were protected meanwhile; if the user named such a commit, the
// error is a [*ProtectedError].
func recordExpired(ctx context.Context, r *kist.Repository, result *ExpireResult, policy string, named bool) error {
	return r.Records().Update(ctx, func(set *record.Set) error {
		protected, err := Protected(ctx, r)
		if err != nil {
			return err
		}
		now := r.Options().Date()
		records := set.At(r.Options().Now())
		var expired []Considered
		for _, c := range result.Expired {
			why := protected[c.ID]
			if _, held := records.Held(c.ID); held {
				why = append(why, "held")
			}
			if len(why) > 0 && named {
				return &ProtectedError{Commit: c.ID, Why: why}
			}
			if len(why) > 0 {
				c.keep(why...)
				result.Kept = append(result.Kept, c)
				continue
			}
			err := set.Switch(record.Record{
				Kind: record.Expire, Key: object.Key{Kind: object.KindCommit, ID: c.ID}, On: true,
				Time: now.UTC(), Who: r.Recorder(), Host: r.Options().Host, Reason: policy,
			})
			if err != nil && named {
				return err
			}
			if err != nil {
				c.keep(record.ErrFinal.Error())
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
// [*intact.GoneError].
func Unexpire(ctx context.Context, r *kist.Repository, revs []string) ([]object.ID, error) {
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
	return unexpire(ctx, r, ids, false)
}

// UnexpireAll is Unexpire for all expired commits with complete content. If
// others exist, the result is the restored commits and a [*intact.GoneError]
// with the rest.
func UnexpireAll(ctx context.Context, r *kist.Repository) ([]object.ID, error) {
	list, err := Expirations(r)
	if err != nil {
		return nil, err
	}
	var ids []object.ID
	for _, rec := range list {
		ids = append(ids, rec.Key.ID)
	}
	return unexpire(ctx, r, ids, true)
}

// unexpire undoes expirations: all or none, or with some set, those of commits
// with complete content. Publish makes sure that no gc removes objects
// meanwhile.
func unexpire(ctx context.Context, r *kist.Repository, ids []object.ID, some bool) ([]object.ID, error) {
	var done []object.ID
	gone := &intact.GoneError{}
	err := r.Publish(ctx, func(ctx context.Context) error {
		return r.Records().Update(ctx, func(set *record.Set) error {
			found := intact.NewInventory(r, set.At(r.Options().Now()))
			done, gone.Commits = nil, nil
			for _, id := range ids {
				key := object.Key{Kind: object.KindCommit, ID: id}
				rec, _ := set.Get(record.Expire, key)
				if !rec.On {
					if some { // another process was faster
						continue
					}
					return fmt.Errorf("commit %s: %w", id.Short(), ErrNotExpired)
				}
				missing, err := CountMissing(ctx, r, found, id)
				if err != nil {
					return err
				}
				if missing > 0 {
					gone.Commits = append(gone.Commits, intact.Incomplete{Commit: id, Objects: missing})
					continue
				}
				rec.On, rec.Time, rec.Who, rec.Host = false, r.Options().Date().UTC(), r.Recorder(), r.Options().Host
				if err := set.Switch(rec); err != nil {
					return err
				}
				done = append(done, id)
			}
			if len(gone.Commits) > 0 && !some {
				return gone
			}
			return nil
		})
	})
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
func CountMissing(ctx context.Context, r *kist.Repository, found *intact.Inventory, id object.ID) (int, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return found.CountMissing(ctx, c)
}
