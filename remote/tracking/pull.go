package tracking

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
)

// PullOptions are the options of [Pull].
type PullOptions struct {
	Fetch  FetchOptions         // Pull sets its Remote; its Branches must include the merged branch
	Merge  commits.MergeOptions // Pull sets its Rev, and its message if empty
	Source registry.Upstream    // zero: the upstream of HEAD's branch
}

// PullResult is the result of a pull.
type PullResult struct {
	Source registry.Upstream
	Fetch  *FetchResult
	Merge  *commits.MergeResult // nil after an earlier error
}

// Pull fetches and then merges the upstream of HEAD's branch, or Source, into the
// branch. The error matches ErrNoUpstream if there is neither. Other errors are those
// of [Fetch] and [commits.Merge].
func Pull(ctx context.Context, r *kist.Repository, o PullOptions) (*PullResult, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	if o.Source == (registry.Upstream{}) {
		head, err := r.Refs().Head()
		if err != nil {
			return nil, err
		}
		if head.Branch == "" {
			return nil, fmt.Errorf("HEAD is detached: %w", kist.ErrNoUpstream)
		}
		if o.Source, err = registry.UpstreamOf(r, head.Branch); err != nil {
			return nil, err
		}
	}
	result := &PullResult{Source: o.Source}
	m, err := registry.Find(r, o.Source.Remote)
	if err != nil {
		return nil, err
	}
	o.Fetch.Remote = o.Source.Remote
	if result.Fetch, err = Fetch(ctx, r, o.Fetch); err != nil {
		return result, err
	}
	branch := strings.TrimPrefix(o.Source.Ref, refs.Heads)
	tip, err := r.Refs().Get(o.Source.Tracking())
	if err != nil {
		return result, fmt.Errorf("branch %q of %q: %w", branch, o.Source.Remote, err)
	}
	if err := r.Publish(ctx, func(ctx context.Context) error { return r.Refs().SetSpecial(ctx, refs.FetchHead, tip) }); err != nil {
		return result, err
	}
	if o.Merge.Message == "" {
		o.Merge.Message = fmt.Sprintf("Merge branch '%s' of %s", branch, remote.Redact(m.URL))
	}
	o.Merge.Rev = o.Source.Short()
	if full, err := r.Refs().Expand(ctx, o.Merge.Rev); err != nil || full != o.Source.Tracking() { // something here has this name
		o.Merge.Rev = o.Source.Tracking()
	}
	result.Merge, err = commits.Merge(ctx, r, o.Merge)
	return result, err
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

// note merges the received records into the repository's. If the decision is Refuse,
// it takes back the waiting ones. It runs while the session publishes.
func (j *judge) note(ctx context.Context, received *transfer.FetchResult, d Decision, result *FetchResult) error {
	var merged []record.Record
	err := j.r.Records().Update(ctx, func(set *record.Set) error {
		merged = nil
		for _, since := range set.Newer(j.ours) {
			if since.Frees() { // objects that seemed to be here may be gone
				return &volume.StaleError{Keys: []object.Key{since.Key}}
			}
		}
		for _, news := range received.Forget {
			set.Forget(news)
		}
		for news := range received.Records.All() {
			if set.Merge(news) {
				merged = append(merged, news)
			}
		}
		if d == Refuse {
			return j.takeBack(set, received.Waiting)
		}
		return nil
	})
	if err != nil {
		return err
	}
	result.Records = len(merged)
	result.Received, err = j.received(ctx, append(merged, received.Waiting...), received.Waiting)
	return err
}

// wouldReceive is received for a dry run.
func (j *judge) wouldReceive(ctx context.Context, theirs *record.Set) ([]ReceivedRecord, error) {
	news := theirs.Newer(j.ours)
	waiting, err := j.Waits(ctx, news)
	if err != nil {
		return nil, err
	}
	return j.received(ctx, news, waiting)
}

// received returns the new records with their effects here, waiting ones included.
func (j *judge) received(ctx context.Context, news, waiting []record.Record) ([]ReceivedRecord, error) {
	var protected map[object.ID][]string
	if slices.ContainsFunc(news, func(rec record.Record) bool { return rec.Kind == record.Expire && rec.On }) {
		var err error
		if protected, err = retain.Protected(ctx, j.r, j.ours.View()); err != nil {
			return nil, err
		}
	}
	waits := map[string]bool{}
	for _, rec := range waiting {
		waits[rec.Name()] = true
	}
	var list []ReceivedRecord
	for _, rec := range news {
		got := ReceivedRecord{Record: rec, Needed: j.needed[rec.Name()], Waits: waits[rec.Name()]}
		got.Was, _ = j.ours.Get(rec.Kind, rec.Key)
		if rec.Kind == record.Expire && rec.On {
			got.Needed = protected[rec.Key.ID]
		}
		list = append(list, got)
	}
	return list, nil
}

// takeBack revokes records. The next push sends the revocations. The objects that the
// records would remove are intact here.
func (j *judge) takeBack(set *record.Set, waiting []record.Record) error {
	for _, rec := range waiting {
		set.Merge(rec)
		back := rec
		if rec.Kind == record.Hold {
			back, _ = j.ours.Get(record.Hold, rec.Key)
		} else {
			back.On = false
		}
		back.Time, back.Who, back.Host = j.r.Options().Date().UTC(), j.who, j.r.Options().Host
		if err := set.Switch(back); err != nil {
			return err
		}
	}
	return nil
}
