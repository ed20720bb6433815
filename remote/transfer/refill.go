package transfer

import (
	"context"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// Refill sends the objects that refs and holds of the remote need and that no live pack
// has. Then it appends a root that names the new packs. It assumes no object to be present
// because a ref reaches it. The error for an object that local does not have is an
// [*object.AbsentError], unless local accepted the loss: then the root lists the object
// as lost. refill returns the number of objects that it sent.
func (r *Remote) Refill(ctx context.Context, local Local, progress func(Progress)) (objects int64, err error) {
	p := &push{
		Remote: r, local: local, opt: PushOptions{Records: &record.Set{}, Jobs: DefaultPushJobs},
		meter: NewMeter(progress), refill: true,
	}
	if p.own, err = r.takeOver(ctx); err != nil {
		return 0, err
	}
	defer p.close()
	head, err := r.Head(ctx)
	if err == nil {
		err = p.runAttempts(ctx, head, p.planRefill)
	}
	return p.result.Objects, err
}

// planRefill is attempt for a refill.
func (p *push) planRefill(ctx context.Context) error {
	snap := p.snap
	p.records = &pushRecords{merged: snap.State.Records}
	p.dropUnusable(snap)
	want := slices.Collect(maps.Values(snap.State.Refs))
	for _, id := range snap.Records.Holds() {
		want = append(want, object.Key{Kind: object.KindCommit, ID: id})
	}
	plan, err := p.sendNeeded(ctx, want, snap.Records)
	if err != nil || len(plan.kept) == 0 && len(plan.lost) == 0 {
		return err
	}
	p.result.Lost = slices.SortedFunc(maps.Keys(plan.lost), object.Key.Compare)
	return p.appendMoves(ctx, slices.Collect(maps.Values(plan.kept)))
}
