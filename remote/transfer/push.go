package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// DefaultPushJobs is the number of packs that are sent at once by default. Each
// takes the memory of a pack, about 32 MiB.
const DefaultPushJobs = 3

// PushOptions say what [Remote.Push] does.
type PushOptions struct {
	Updates []RefUpdate // each ref once

	// Records are the repository's records. Push sends a record if the remote
	// has, or gets, its commit or content.
	Records *record.Set

	// Head is the full name of the branch that becomes the remote's default branch,
	// if that is not set or was deleted. It may be empty.
	Head string

	// ConfirmAfter makes a push confirm the values of the refs, unless their commits and earlier
	// confirmations are younger. 0: it confirms nothing.
	ConfirmAfter time.Duration

	// KeepsAway, if not nil, reports whether a remote at head keeps everything for which local is [AwayKnower] and reports true.
	KeepsAway func(ctx context.Context, head *rootlog.State) (bool, error)

	// At is a head that this Remote has just read; nil: the push reads it. The push is safe at an older head: it appends no root there.
	At *rootlog.State

	DryRun   bool           // only plan, and send nothing
	Jobs     int            // packs that are sent at once; 0: DefaultPushJobs
	Progress func(Progress) // called with the progress, one call at a time; may be nil
}

// PushResult is the outcome of a push, or in a dry run of the plan.
type PushResult struct {
	Refs    []RefResult // in the order of the updates
	Objects int64       // sent by this call, and ahead of it
	Bytes   int64       // of the packs they were sent in, as the store keeps them
	Packs   int
	Records int    // sent to the remote
	Seq     uint64 // number of the root that moved the refs, or of the head if none had to move

	Confirmed bool // a root confirms the values of the refs, see [PushOptions.ConfirmAfter]

	// Appended is the root that the push has appended; nil: none.
	Appended *rootlog.State

	// Lost are the objects that were not sent and that the remote does not have:
	// their loss was accepted here, and is new to the remote. Found are the objects
	// that the remote listed as lost, and received.
	Lost, Found []object.Key

	// Locks counts the locked files of the remote, and LockErr says that not all of them
	// are locked for long enough. That does not undo the push.
	Locks   LockResult
	LockErr error
}

// Push sends the objects that updates need and the remote does not have, and moves
// its refs: all of them, or none. It does not send again what an interrupted push
// has sent.
//
// If a ref cannot be moved, the error matches [ErrNotFastForward], or is a
// [*refs.ConflictError] because of its name, or joins several of them. The result then
// has the outcome for each ref. If the outcome is unknown, the error matches
// [rootlog.ErrUnknown].
//
// If an object is missing in local, the error is an [*object.AbsentError], unless
// local is an [object.LossKeeper] and the loss was accepted. Then the root lists
// the object as lost. Push also sends listed objects that local has by now.
//
// Last, Push renews the locks of the remote's files, even if it has nothing else to do.
func (r *Remote) Push(ctx context.Context, local Local, o PushOptions) (*PushResult, error) {
	result, head, err := r.push(ctx, local, o)
	if err == nil && !o.DryRun && o.ConfirmAfter > 0 {
		head, result.Confirmed, err = confirmRefs(ctx, r, local, head, o)
	}
	if err == nil && !o.DryRun {
		result.Locks, result.LockErr = r.renewLocks(ctx, head)
	}
	return result, err
}

// push is Push without the renewal of locks. It also returns the head.
func (r *Remote) push(ctx context.Context, local Local, o PushOptions) (*PushResult, *rootlog.State, error) {
	if err := NeedFolder(r, "push"); err != nil {
		return nil, nil, err
	}
	if err := checkUpdates(o.Updates); err != nil {
		return nil, nil, fmt.Errorf("push: %w", err)
	}
	if o.Jobs <= 0 {
		o.Jobs = DefaultPushJobs
	}

	head := o.At
	if head == nil {
		var err error
		if head, err = HeadToWrite(ctx, r); err != nil {
			return nil, nil, err
		}
	}

	// A push that cannot succeed, or has nothing to do, ends here.
	changes, results, err := judgeUpdates(ctx, local, head, o.Updates)
	if err != nil || len(changes) == 0 && len(unsentRecords(o.Records, head.Records)) == 0 && len(head.Lost) == 0 {
		return &PushResult{Refs: results, Seq: head.Seq}, head, err
	}
	if err := r.CheckWritable(ctx, head); err != nil {
		return nil, nil, err
	}

	p := &push{Remote: r, local: local, opt: o, meter: NewMeter(o.Progress)}
	if a := r.ahead; a != nil {
		r.ahead = nil
		p.own, p.result.Objects, p.result.Bytes, p.result.Packs = a.u.own, a.u.objects, a.u.bytes, a.u.packs
	} else if p.own, err = r.takeOver(ctx); err != nil {
		return nil, nil, err
	}

	defer p.close()
	err = p.runAttempts(ctx, head, p.planAndSend)
	return &p.result, cmp.Or(p.result.Appended, head), err
}

// push is a push under way.
type push struct {
	*Remote
	local   Local
	opt     PushOptions
	own     *ownPacks
	snap    *Snapshot    // the head that the plan relies on: S in docs/format/remote.md
	records *pushRecords // of the attempt
	meter   *Meter
	index   *BuiltIndexes // made for the next root; nil: none
	refill  bool          // the push is that of [Remote.Refill]
	result  PushResult
}

func (p *push) close() {
	p.own.close()
	p.dropIndex()
}

// errReplan is the error of an attempt that must be made again, at p.snap.
var errReplan = errors.New("plan again")

// runAttempts makes attempts, the first one at head, until one needs no other.
func (p *push) runAttempts(ctx context.Context, head *rootlog.State, attempt func(context.Context) error) (err error) {
	if p.snap, err = p.SnapshotAt(ctx, head); err != nil {
		return err
	}
	for {
		if err := attempt(ctx); !errors.Is(err, errReplan) {
			return err
		}
	}
}

// planAndSend makes a plan for the remote's state in p.snap, sends the missing objects, and
// publishes them.
func (p *push) planAndSend(ctx context.Context) error {
	snap := p.snap
	changes, err := p.changesAt(ctx, snap)
	if err != nil {
		return err
	}
	if p.records, err = newPushRecords(ctx, p.local, snap, p.opt.Records); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if p.result.Found, err = findHere(ctx, p.local, snap); err != nil {
		return err
	}
	if len(changes) == 0 && len(p.records.list) == 0 && len(p.result.Found) == 0 {
		return nil
	}

	p.meter.Update(func(at *Progress) { *at = Progress{Phase: PhasePlan, Objects: at.Objects, Bytes: at.Bytes} })
	p.dropUnusable(snap)
	want := p.records.want
	for _, c := range changes {
		if !c.New.IsZero() {
			want = append(want, c.New)
		}
	}

	plan, err := p.sendNeeded(ctx, slices.Concat(want, p.result.Found), p.records.after)
	if len(p.result.Found) > 0 && errors.Is(err, object.ErrNotFound) { // below one of these
		if p.result.Found = nil; len(changes) == 0 && len(p.records.list) == 0 {
			return nil
		}
		plan, err = p.sendNeeded(ctx, want, p.records.after)
	}
	if err != nil {
		return fmt.Errorf("push: %w", addNeededAgain(err, p.opt.Records, snap.State.Records))
	}

	p.result.Lost = slices.SortedFunc(maps.Keys(plan.lost), object.Key.Compare)
	if err := p.records.dropPrivate(snap, plan); err != nil {
		return err
	}
	if p.opt.DryRun {
		records, err := p.records.forRoot(ctx, p.local, snap, changes)
		if err != nil {
			return fmt.Errorf("push: %w", err)
		}
		p.result.Records = len(records)
		p.result.Objects, p.result.Bytes, p.result.Packs = plan.objects, plan.bytes, plan.packs
		return nil
	}
	return p.appendMoves(ctx, slices.Collect(maps.Values(plan.kept)))
}

// changesAt returns the changes of refs at a head, and notes their outcome.
func (p *push) changesAt(ctx context.Context, h *Snapshot) (changes []rootlog.RefChange, err error) {
	changes, p.result.Refs, err = judgeUpdates(ctx, p.local, h.State, p.opt.Updates)
	p.result.Seq = h.State.Seq
	if err == nil {
		err = checkExpired(ctx, p.local, p.opt.Records, h.State.Records, changes)
	}
	return changes, err
}

// sendNeeded sends the wanted objects that the remote does not have at S, unless own packs have them. It begins while it
// looks for them: so a push of any size takes the memory of some packs. See newPlan for the arguments. The result keeps all
// packs with these objects. A dry run sends nothing.
func (p *push) sendNeeded(ctx context.Context, want []object.Key, after *record.Effects) (plan *plan, err error) {
	before := p.meter.Now()
	u := &uploader{r: p.Remote, local: p.local, own: p.own, start: p.snap.State.Seq, meter: p.meter, looked: p.o.Now()}
	write := u.sendBatch
	if p.opt.DryRun {
		write = func(_ context.Context, _ *Packer, batch []item) error { return p.own.noteUnsent(batch) }
	}
	produce := func(ctx context.Context, send func([]item) error) (err error) {
		end := trace.From(ctx).Begin("plan the push")
		plan, err = p.newPlan(ctx, want, after, send)
		end(err)
		if err != nil {
			return err
		}
		rest := plan.cutBatches(p.b, p.opt.Jobs)
		plan.packs += len(rest)
		if p.opt.DryRun {
			return nil
		}
		if err := p.checkSent(ctx, plan); err != nil {
			return err
		}
		p.meter.Update(func(at *Progress) {
			at.Phase, at.TotalObjects, at.TotalBytes = PhaseCopy, before.Objects+plan.objects, before.Bytes+plan.bytes
		})
		return SendEach(rest)(ctx, send)
	}

	err = WritePacks(ctx, p.opt.Jobs, produce, item.packRoom, write)
	p.result.Objects += u.objects
	p.result.Bytes += u.bytes
	p.result.Packs += u.packs
	if errors.Is(err, errEpochBegun) {
		if p.snap, err = p.SnapshotAt(ctx, u.newer); err == nil {
			err = errReplan
		}
	}
	for _, s := range u.sent {
		if err == nil {
			plan.kept[s.info.Name] = s
		}
	}
	return plan, err
}

// dropUnusable forgets the sent packs that cannot be used at the head of snap: packs that
// a root already names, and packs that are marked for deletion (RECHECK_HEAD). It also forgets
// packs begun before the floor, which may have been marked and forgotten (HEED_FLOOR), and packs
// begun before the epoch, which a removed recipient can read (EPOCH_OF_HEAD). Nor can it use packs
// with a purged object, or with an object listed as lost: objects below it may be absent.
func (p *push) dropUnusable(snap *Snapshot) {
	p.own.dropPacks(func(s *sentPack) bool {
		_, marked := snap.State.Condemned[s.info.Name.Path()]
		if snap.IsLive(s.info.Name) || marked || s.start < snap.State.LeastStart() {
			return true
		}
		entries, err := p.own.entriesOf(s)
		return err != nil || slices.ContainsFunc(entries, func(e pack.Entry) bool {
			_, purged := p.records.after.Purged(e.Key)
			return purged || snap.IsLost(e.Key)
		})
	})
}

// findHere returns the objects that the remote lists as lost and that local has.
func findHere(ctx context.Context, local object.Reader, snap *Snapshot) ([]object.Key, error) {
	listed := slices.SortedFunc(maps.Keys(snap.State.Lost), object.Key.Compare)
	missing, err := local.Missing(ctx, listed)
	absent := map[object.Key]bool{}
	for _, key := range missing {
		absent[key] = true
	}
	return slices.DeleteFunc(listed, func(key object.Key) bool { return absent[key] }), err
}

// checkSent makes sure that the remote still has the packs that this push took over
// and that the plan relies on. If some are gone, it forgets them and returns errReplan.
func (p *push) checkSent(ctx context.Context, plan *plan) error {
	kept := slices.Collect(maps.Values(plan.kept))
	err := Parallel(ctx, p.o.Jobs, len(kept), func(ctx context.Context, i int) error {
		s := kept[i]
		if s.checked {
			return nil
		}
		err := p.CheckSize(ctx, s.info.Name.Path(), int64(s.info.Size))
		if s.gone = IsBadCopy(err); s.gone {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("push: look up the sent packs: %w", err)
	}

	for _, s := range kept {
		s.checked = true
	}
	gone := func(s *sentPack) bool { return s.gone }
	if !slices.ContainsFunc(kept, gone) {
		return nil
	}

	p.own.dropPacks(gone)
	return errReplan
}

// appendMoves appends the root that moves the refs and names the sent packs. If the remote
// got newer roots since the plan, publish checks that the plan is still right there.
func (p *push) appendMoves(ctx context.Context, sent []*sentPack) error {
	slices.SortFunc(sent, func(a, b *sentPack) int { return a.info.Name.Compare(b.info.Name) })
	p.dropIndex() // that of an earlier attempt may be marked for deletion by now
	for h := p.snap; ; {
		changes, err := p.changesAt(ctx, h)
		if err != nil {
			return err
		}
		records, err := p.records.forRoot(ctx, p.local, h, changes)
		if err != nil || len(changes) == 0 && len(records) == 0 && len(p.result.Found) == 0 && !p.refill {
			return err
		}
		if len(records) > 0 && !h.State.Records.Equal(p.snap.State.Records) {
			err = rootlog.ErrReplan // they may need other objects now
		} else {
			err = p.checkClaim(h, sent, changes)
		}
		if errors.Is(err, rootlog.ErrReplan) || errors.Is(err, rootlog.ErrFloor) {
			p.snap = h
			return errReplan
		}
		if err != nil {
			return err
		}
		next, later, err := p.appendTo(ctx, h, sent, changes, records)
		if err != nil {
			return err
		}
		if next != nil {
			p.result.Seq, p.result.Records = next.Seq, len(records)
			p.noteAppended(ctx, next, sent)
			return nil
		}
		h = later
	}
}

// claimOf returns the conditions of the root: all that was live at S is still live
// (RELY_ON_ALL_LIVE), and nothing that was sent is marked for deletion.
func (p *push) claimOf(sent []*sentPack, changes []rootlog.RefChange) *rootlog.Claim {
	c := &rootlog.Claim{Live: p.snap.Live, Start: p.snap.State.Seq, HasPacks: len(sent) > 0, Refs: changes, Records: p.records.merged, Lost: p.snap.State.Lost}
	for _, pack := range sent {
		c.Start = min(c.Start, pack.start)
		c.Own = append(c.Own, pack.info.Name.Path())
	}
	c.Own = append(c.Own, p.index.Paths()...)
	return c
}

// checkClaim returns an error if the plan made at S no longer holds at h. Nothing that
// is live at h may be listed as lost: another push has sent it with everything
// below.
func (p *push) checkClaim(h *Snapshot, sent []*sentPack, changes []rootlog.RefChange) error {
	for _, key := range p.result.Lost {
		if _, there, err := h.Find(key); err != nil {
			return err
		} else if there {
			return rootlog.ErrReplan
		}
	}
	return p.claimOf(sent, changes).Check(h.State, h.Live)
}

// appendTo appends the root that follows h. See [Remote.AppendRoot] for the results.
func (p *push) appendTo(ctx context.Context, h *Snapshot, sent []*sentPack, changes []rootlog.RefChange, records []record.Record) (next *rootlog.State, later *Snapshot, err error) {
	c := p.NewChange()
	c.Refs, c.Records, c.Lost, c.Found = changes, records, p.result.Lost, p.result.Found
	if _, ok := h.State.Refs[h.State.DefaultBranch]; !ok {
		c.Head = p.opt.Head
	}
	// A late root of this push may have made some of its packs live.
	added := slices.DeleteFunc(slices.Clone(sent), func(s *sentPack) bool { return h.IsLive(s.info.Name) })
	if err := p.addPacks(ctx, c, h, added); err != nil {
		return nil, nil, err
	}
	return p.Remote.AppendRoot(ctx, h, c)
}

// noteAppended records that a root names the sent packs. The push has succeeded by then, so
// errors here are only warnings.
func (p *push) noteAppended(ctx context.Context, head *rootlog.State, sent []*sentPack) {
	p.result.Appended = head
	named := map[pack.Name]bool{}
	for _, s := range sent {
		named[s.info.Name] = true
	}
	p.own.dropPacks(func(s *sentPack) bool { return named[s.info.Name] })
	p.index.KeepCopies(p.indexes)
	p.index = nil
	if err := p.RememberHead(ctx, head); err != nil {
		p.o.Warn(err.Error())
	}
}

// MaxInlineEntries is the largest number of entries that a root may have: each takes at least 36
// bytes.
const MaxInlineEntries = rootlog.MaxInline / 36

// addPacks makes c add the packs of a push to a root that follows snap. A root lists
// few objects itself. For more, c names an index file, p.index. A push of many objects
// makes one of its own. A push of few also moves the entries into it that others left
// in the root.
func (p *push) addPacks(ctx context.Context, c *rootlog.Change, snap *Snapshot, packs []*sentPack) error {
	own, alone, err := p.inlineOf(packs)
	if err != nil {
		return err
	}
	if len(packs) == 0 || !alone && rootlog.InlineSize(own)+rootlog.InlineSize(snap.State.Packs) <= rootlog.MaxInline {
		c.AddPacks = own
		p.dropIndex()
		return nil
	}
	if p.index != nil && !p.index.FitsAfter(snap, nil, func(pack.Name) bool { return false }) {
		p.dropIndex()
	}
	if p.index == nil {
		var others []rootlog.Inline
		if !alone {
			others = snap.inlinePacks()
		}
		x, err := p.buildIndex(packs, others)
		if err != nil {
			return err
		}
		if err := x.Send(ctx, p.Remote); err != nil {
			return err
		}
		p.index = x
	}

	c.AddIndexes = p.index.Listed()
	// Only the packs that it names: others may have come into the root since.
	c.Merged = p.index.Inline
	return nil
}

// inlineOf returns packs as a root lists them. Alone means that they are too much for a root: then it may return none.
func (p *push) inlineOf(packs []*sentPack) (own []rootlog.Inline, alone bool, err error) {
	objects := 0
	for _, s := range packs {
		objects += s.count
	}
	if objects > MaxInlineEntries {
		return nil, true, nil
	}
	for _, s := range packs {
		entries, err := p.own.entriesOf(s)
		if err != nil {
			return nil, false, err
		}
		own = append(own, rootlog.Inline{Info: s.info, Entries: entries})
	}
	return own, rootlog.InlineSize(own) > rootlog.MaxInline, nil
}

// buildIndex makes index files of own packs, and of packs of others whose entries lie in a root.
func (p *push) buildIndex(packs []*sentPack, others []rootlog.Inline) (*BuiltIndexes, error) {
	var infos []pack.Info
	n := 0
	for _, s := range packs {
		infos = append(infos, s.info)
		n += s.count
	}
	var entries []pack.Entry
	for _, o := range others {
		infos = append(infos, o.Info)
		entries = append(entries, o.Entries...)
	}
	slices.SortFunc(entries, func(a, b pack.Entry) int { return a.Key.Compare(b.Key) })

	sources := append(p.own.where.sources(), noErrors(entries))
	x, err := p.indexes.BuildMerged(infos, n+len(entries), sources...)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		x.Inline = append(x.Inline, o.Name)
		x.Named[o.Name] = struct{}{}
	}
	return x, nil
}

// dropIndex forgets the index files that were made for the next root.
func (p *push) dropIndex() {
	p.index.Close()
	p.index = nil
}
