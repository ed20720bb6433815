package exchange

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/transfer"
)

// keyAccept is the configuration key for the records of others that a fetch accepts:
// "ask", "always" or "never".
const keyAccept = "records.accept"

// Decision is the user's choice, in a fetch, about waiting records.
type Decision int

const (
	Ask    Decision = iota // as configured
	Accept                 // accept them
	Refuse                 // revoke them for all repositories, with the next push
)

// ReceivedRecord is a record of a remote that is new here.
type ReceivedRecord struct {
	record.Record
	Was    record.Record // of the same name here before; its Kind is "" if there was none
	Needed []string      // the local names that need the object: "branch main", "tag v1", "held"
	Waits  bool          // it has no effect here until the user accepts it
}

// judge decides which records of a remote wait. A record waits if it would remove
// objects that a local name needs, or end a hold of this repository's user. The
// objects of a waiting record are intact here, so nothing depends on the record.
type judge struct {
	r      *kist.Repository
	accept string
	who    string
	now    time.Time

	ours   *record.Set
	needed map[string][]string // local names that need the content of a purge, by the purge's name
}

// NewJudge returns a judge for a repository whose records are ours.
func NewJudge(r *kist.Repository, ours *record.Set, d Decision) (*judge, error) {
	accept, set := r.Config().Get(keyAccept)
	switch {
	case d == Accept:
		accept = "always"
	case !set:
		accept = "ask"
	case !slices.Contains([]string{"ask", "always", "never"}, accept):
		return nil, &kist.ConfigError{Err: fmt.Errorf("%s: %q is none of ask, always, never", keyAccept, accept)}
	}
	return &judge{r: r, accept: accept, who: r.Recorder(), now: r.Options().Now(), ours: ours}, nil
}

// Waits returns the new records of a remote that must not take effect here yet.
func (j *judge) Waits(ctx context.Context, news []record.Record) ([]record.Record, error) {
	j.needed = map[string][]string{}
	if j.accept == "always" {
		return nil, nil
	}

	var waits, purges []record.Record
	found := kist.NewInventory(j.r, j.ours.View())
	for _, rec := range news {
		switch {
		case rec.Kind == record.Hold:
			if j.endsHold(&rec) {
				waits = append(waits, rec)
			}
		case !rec.On:
		case rec.Kind == record.Purge:
			err := graph.CheckPresent(ctx, j.r.Objects(), rec.Key)
			if err != nil && !object.IsUnreadable(err) {
				return nil, err
			}
			if err == nil {
				purges = append(purges, rec)
			}
		case j.accept == "never":
			missing, err := retain.CountMissing(ctx, j.r, found, rec.Key.ID)
			if err != nil && !object.IsUnreadable(err) {
				return nil, err
			}
			if err == nil && missing == 0 {
				waits = append(waits, rec)
			}
		}
	}
	if err := j.findNeeded(ctx, purges); err != nil {
		return nil, err
	}

	for _, rec := range purges {
		if j.accept == "never" || len(j.needed[rec.Name()]) > 0 {
			waits = append(waits, rec)
		}
	}
	return waits, nil
}

// endsHold reports whether rec ends or shortens a hold without the right to do so.
func (j *judge) endsHold(rec *record.Record) bool {
	was, ok := j.ours.Get(record.Hold, rec.Key)
	if !ok || !was.On || was.Over(j.now) || j.accept != "never" && was.Who != j.who {
		return false
	}
	return !rec.On || !rec.Until.IsZero() && (was.Until.IsZero() || rec.Until.Before(was.Until))
}

// findNeeded notes the local names that need the contents of purges.
func (j *judge) findNeeded(ctx context.Context, purges []record.Record) error {
	if len(purges) == 0 {
		return nil
	}
	names, err := localNames(ctx, j.r, j.ours)
	if err != nil {
		return err
	}

	w := purge.NewHistorySearch(j.r)
	w.Records = j.ours.View()
	for _, rec := range purges {
		w.Target(rec.Key)
	}

	need := func(key object.Key, what string) {
		name := (&record.Record{Kind: record.Purge, Key: key}).Name()
		if list := j.needed[name]; !slices.Contains(list, what) {
			j.needed[name] = append(list, what)
		}
	}

	for _, name := range names {
		err := w.TargetsOf(ctx, name.id, func(key object.Key) { need(key, name.what) })
		if object.IsUnreadable(err) { // the name may need any purged content
			for _, rec := range purges {
				need(rec.Key, name.what)
			}
			continue
		}
		if err != nil {
			return err
		}
	}

	return purge.EachStaged(ctx, j.r, func(_ string, e *object.Entry) error {
		if _, err := w.Has(ctx, e); err != nil && !object.IsUnreadable(err) {
			return err
		}
		w.EachTarget(e, func(key object.Key) { need(key, "the index") })
		return nil
	})
}

// localName is a local name of a commit, for people to read.
type localName struct {
	what string
	id   object.ID
}

// localNames returns the commits of a detached HEAD, branches, tags and holds.
// Remote-tracking branches are not local names.
func localNames(ctx context.Context, r *kist.Repository, set *record.Set) ([]localName, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}

	var names []localName
	if head.Branch == "" {
		names = append(names, localName{"HEAD", head.ID})
	}

	for _, kind := range []struct{ prefix, what string }{{refs.Heads, "branch "}, {refs.Tags, "tag "}} {
		list, err := r.Refs().List(kind.prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			id, err := refs.Peel(ctx, r.Objects(), ref.ID)
			if object.IsUnreadable(err) { // its needs are unknown
				id = ref.ID
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", ref.Name, err)
			}
			names = append(names, localName{kind.what + strings.TrimPrefix(ref.Name, kind.prefix), id})
		}
	}

	for _, hold := range retain.HoldsOf(set.At(r.Options().Now())) {
		names = append(names, localName{"the hold of " + hold.Key.ID.Short(), hold.Key.ID})
	}
	return names, nil
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
