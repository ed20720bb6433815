package tracking

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/transfer"
)

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
		if protected, err = retain.Protected(ctx, j.r); err != nil {
			return nil, err
		}
	}
	here := j.ours.View()
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
			if _, held := here.Held(rec.Key.ID); held {
				got.Needed = append(slices.Clone(got.Needed), "held")
			}
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
