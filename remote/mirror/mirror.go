// Package mirror copies branches, tags and records from one remote to another, without a repository in
// between. Packs travel as they are if the target wants nearly all of their objects. Otherwise
// their objects travel one by one. Every object is hashed on the way.
//
// To the target, a copy is a push: the rules of package transfer and of the root log hold. So any number of
// people can push there meanwhile, and a copy that was stopped goes on where it was.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Options say what [Copy] copies.
type Options struct {
	// Refs are the full names of the refs to copy. Empty: all, except the keep refs of clones.
	Refs []string

	// Force moves refs of the target that are no fast-forwards. Prune deletes the refs of the target that the
	// source does not have, except keep refs.
	Force, Prune bool

	DryRun   bool                    // only plan, and send nothing
	Jobs     int                     // packs under way at once; 0: the default of package transfer
	Progress func(transfer.Progress) // called with the progress, one call at a time; may be nil
}

// Result is the outcome of a copy.
type Result struct {
	*transfer.PushResult
	WholePacks int // packs that were sent as they are
}

// wholeShare is the least share of wanted bytes in a pack that is sent as it is, in percent.
const wholeShare = 80

// ErrNoRef is matched by the error for a ref that the source does not have.
var ErrNoRef = errors.New("the source has no such branch or tag")

// Copy copies refs, and the records of their commits, from one remote to another. Both stay open. The target
// was opened with a folder. The errors are those of [transfer.Remote.Push], or match [ErrNoRef]. If an object of the source is
// damaged or missing, the error says where, and the refs of the target do not move.
func Copy(ctx context.Context, from, to *transfer.Remote, o Options) (*Result, error) {
	if err := transfer.NeedFolder(to, "copy"); err != nil {
		return nil, err
	}
	if o.Jobs <= 0 {
		o.Jobs = transfer.DefaultPushJobs
	}
	src, err := openSource(ctx, from, to.Options().Dir)
	if err != nil {
		return nil, err
	}
	defer src.close()

	head, err := transfer.HeadToWrite(ctx, to)
	if err != nil {
		return nil, err
	}
	push := transfer.PushOptions{Records: src.State.Records, Head: src.State.DefaultBranch, DryRun: true, Jobs: o.Jobs}
	if push.Updates, err = updatesOf(src.State.Refs, head.Refs, o); err != nil {
		return nil, err
	}

	// The first pass finds out how much of each pack is wanted.
	src.wanted = map[pack.Name]int64{}
	planned, err := to.Push(ctx, src, push)
	if err != nil || o.DryRun {
		return &Result{PushResult: planned}, err
	}
	whole, err := src.wholePacks(to, head)
	if err != nil {
		return nil, err
	}
	src.wanted = nil

	c := &copier{source: src, to: to, meter: transfer.NewMeter(o.Progress)}
	if err := c.sendWhole(ctx, whole, o.Jobs); err != nil {
		return nil, err
	}
	push.DryRun = false
	push.Progress = func(at transfer.Progress) { c.meter.Update(func(now *transfer.Progress) { *now = at }) }
	sent, err := to.Push(ctx, src, push)
	if err == nil && sent.Appended != nil {
		// The copy has succeeded, even if the merge fails.
		_ = collect.MergeSmall(ctx, to, sent.Appended)
	}
	return &Result{PushResult: sent, WholePacks: int(c.sent.Load())}, err
}

// updatesOf returns the changes of the target's refs.
func updatesOf(have, there map[string]object.Key, o Options) (updates []transfer.RefUpdate, err error) {
	names := o.Refs
	if len(names) == 0 {
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(have)), isKeep)
	}
	for _, name := range names {
		key, ok := have[name]
		if !ok {
			return nil, fmt.Errorf("%s: %w", name, ErrNoRef)
		}
		updates = append(updates, transfer.RefUpdate{Name: name, New: key, Force: o.Force})
	}
	if !o.Prune {
		return updates, nil
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, ok := have[name]; !ok && !isKeep(name) {
			updates = append(updates, transfer.RefUpdate{Name: name, Force: true})
		}
	}
	return updates, nil
}

func isKeep(name string) bool { return strings.HasPrefix(name, refs.Keep) }

// copier sends packs of a source as they are.
type copier struct {
	*source
	to    *transfer.Remote
	meter *transfer.Meter
	sent  atomic.Int64
}

// sendWhole sends packs. A damaged one is left out: the push reads each of its wanted objects, and says which
// one is damaged.
func (c *copier) sendWhole(ctx context.Context, packs []pack.Info, jobs int) error {
	if len(packs) == 0 {
		return nil
	}
	total := int64(0)
	for _, p := range packs {
		total += int64(p.Size)
	}
	c.meter.Update(func(at *transfer.Progress) { *at = transfer.Progress{Phase: transfer.PhaseCopy, TotalBytes: total} })

	ahead, err := transfer.SendPacksAhead(ctx, c.to)
	if err != nil {
		return err
	}
	values := pack.NewValues(c.from.ReadPack, transfer.BaseBlock)
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	return transfer.Parallel(ctx, jobs, len(packs), func(ctx context.Context, i int) error {
		buffer := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		*buffer = slices.Grow((*buffer)[:0], int(packs[i].Size))[:packs[i].Size]
		var entries []pack.Entry
		err := retry.Verified(func() (err error) {
			entries, err = c.readWhole(ctx, packs[i], values, *buffer)
			return err
		})
		if transfer.IsBadCopy(err) || object.IsUnreadable(err) {
			return nil
		}
		if err == nil {
			err = ahead.SendPack(ctx, *buffer, entries)
		}
		if err != nil {
			return fmt.Errorf("copy pack %s: %w", packs[i].Name, err)
		}
		c.sent.Add(1)
		c.meter.Update(func(at *transfer.Progress) {
			at.Objects += int64(len(entries))
			at.Bytes += int64(packs[i].Size)
		})
		return nil
	})
}

// readWhole reads a pack into body, and verifies everything in it.
func (c *copier) readWhole(ctx context.Context, p pack.Info, values *pack.Values, body []byte) ([]pack.Entry, error) {
	n, err := c.from.ReadPack(ctx, p, body, 0)
	if err != nil {
		return nil, err
	}
	if n < len(body) {
		return nil, transfer.ErrShortPack(p, int64(n))
	}
	entries, err := pack.ReadIndex(p, func(b []byte, off int64) (int, error) { return copy(b, body[min(off, int64(n)):]), nil })
	if err != nil {
		return nil, err
	}
	defer values.DropPack(p.Name)
	for _, e := range entries {
		data, err := values.Decode(ctx, e, body[e.Offset:e.Offset+e.Stored], pack.Part{Data: body})
		if err == nil && e.Key.Kind.IsNode() {
			err = object.Check(e.Key.Kind, data)
		}
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}
