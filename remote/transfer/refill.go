package transfer

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// refill sends all that refs and holds of the remote need and that is in no live
// pack, and appends a root that names the packs. Nothing is taken to be there
// because a ref says so. What local lacks is an [*object.NotFoundError], or listed as
// lost if local accepted the loss. refill returns how many objects it has sent.
func (r *Remote) refill(ctx context.Context, local Local, progress func(Progress)) (objects int64, err error) {
	if r.o.Dir == "" {
		return 0, errors.New("there is no folder to note what was sent")
	}
	p := &push{
		Remote: r, local: local, opt: PushOptions{Records: &record.Set{}, Jobs: DefaultPushJobs},
		meter: &meter{tell: progress}, refill: true,
	}
	if p.own, err = r.takeOver(ctx); err != nil {
		return 0, err
	}
	defer p.close()
	head, err := r.Head(ctx)
	if err == nil {
		err = p.run(ctx, head, p.attemptRefill)
	}
	return p.result.Objects, err
}

// attemptRefill is attempt for a refill.
func (p *push) attemptRefill(ctx context.Context) error {
	snap := p.snap
	p.news = &news{merged: snap.state.Records}
	p.dropUnusable(snap)
	want := slices.Collect(maps.Values(snap.state.Refs))
	for _, id := range snap.records.Holds() {
		want = append(want, object.Key{Kind: object.KindCommit, ID: id})
	}
	plan, err := p.newPlan(ctx, want, snap.records)
	if err != nil || plan.objects() == 0 && len(plan.kept) == 0 && len(plan.lost) == 0 {
		return err
	}
	p.result.Lost = slices.SortedFunc(maps.Keys(plan.lost), object.Key.Compare)
	return p.carryOut(ctx, plan)
}
