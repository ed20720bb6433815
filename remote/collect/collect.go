package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// The defaults for the ages in [Options].
const (
	DefaultGrace       = 24 * time.Hour
	DefaultForgetAfter = 30 * 24 * time.Hour
	DefaultPruneAge    = 30 * 24 * time.Hour
)

// Options configure [PlanGarbage]. Ages do not matter for safety: after too short
// an age, other processes must plan again.
type Options struct {
	// Grace is the time from condemning a file to deleting it: readers that began before may
	// still need the file. 0: at once.
	Grace time.Duration

	// ForgetAfter is the time from condemning a file to forgetting its name. A push that
	// began before the file was condemned has to start over then. 0: at once.
	ForgetAfter time.Duration

	// PruneAge is the age, by the store's clock, at which a file is condemned that no root
	// ever named: a push that is under way or will be resumed may have sent it. 0: any.
	PruneAge time.Duration

	// MaxWaste is the share of garbage, from 0 to 1, that may remain. The packs with the
	// largest share are rewritten first, until no more is left.
	MaxWaste float64

	// Repack stores packs with much compressed data, or with nodes, as small as possible:
	// objects become patches of others. Packs that were repacked before are kept, or
	// repacked once more together with new ones if that is little work.
	Repack bool

	// Rekey replaces the packs, index files and state files of an encrypted remote that are not encrypted with the
	// newest key. It reads the header of each.
	Rekey bool

	DryRun   bool                    // the plan will not be applied
	Jobs     int                     // requests under way at once; 0: as the Remote
	Progress func(transfer.Progress) // called with the progress of copying, one call at a time; may be nil
}

// Stats are the totals of a plan or, after Apply, of the collection. Files are
// packs, index files and state files.
type Stats struct {
	Live    int64 `json:"objects_live" doc:"the number of objects that refs reach"`
	Removed int64 `json:"objects_removed" doc:"the number of unreachable objects in marked packs"`
	Before  int64 `json:"bytes_before" doc:"the size of all files before"`
	After   int64 `json:"bytes_after" doc:"the size of all files afterwards"`
	Packs   int   `json:"packs" doc:"the number of live packs before"`

	CondemnStats
	Deleted   int `json:"deleted" doc:"the number of deleted files"`
	Forgotten int `json:"forgotten" doc:"the number of marks of files that were deleted long ago"`

	// Condemned files that are not due yet, their bytes, and the time when the first is due.
	Waiting      int       `json:"waiting" doc:"the number of marked files that are not due yet"`
	WaitingBytes int64     `json:"bytes_waiting" doc:"their size"`
	Next         time.Time `json:"-"`

	LockStats
	ArchiveStats
}

// LockStats counts the condemned files that are due, but are still locked, their bytes, and the
// time when the last lock ends.
type LockStats struct {
	Locked      int       `json:"locked" doc:"the number of files that are due, but that the store still locks"`
	LockedBytes int64     `json:"bytes_locked" doc:"their size"`
	LockedUntil time.Time `json:"-"`
}

// CondemnStats counts the files that a collection condemns, and the packs that replace
// them.
type CondemnStats struct {
	Condemned      int   `json:"marked" doc:"the number of files that were marked for deletion"`
	CondemnedBytes int64 `json:"bytes_marked" doc:"their size"`
	Rewritten      int   `json:"rewritten" doc:"the number of marked packs whose live objects were copied"`
	Repacked       int   `json:"repacked" doc:"the number of marked packs whose live objects were stored as small as possible"`
	RepackedBytes  int64 `json:"bytes_repacked" doc:"the size of these packs"`
	Patches        int64 `json:"patches" doc:"the number of objects stored as differences, without --dry-run"`
	Written        int   `json:"written" doc:"the number of new packs, without --dry-run"`
	Indexes        int   `json:"indexes" doc:"the number of marked index files"`
}

// Collection is a collection of garbage on a remote: the files to condemn, to delete and to
// forget. It follows section "Collecting" of docs/format/remote.md. Any number of
// collections may run at once.
type Collection struct {
	knownFiles
	r       *transfer.Remote
	local   object.Reader
	options Options
	stats   Stats
	meter   *transfer.Meter

	reach       *reachFinder
	livePacks   []*livePack        // live at snap
	wasRepacked map[pack.Name]bool // whether packs were repacked before, as far as their headers were read
	snap        *transfer.Snapshot
	claimSnap   *transfer.Snapshot // S in that section: the next root relies on its live files; all objects in reach were found there
	endedHolds  []record.Record    // holds that ended before snap

	repair   *repair                // nil: no repair
	newPacks *newPacks              // nil: nothing was copied yet; empty after a root has named them, or if no pack is to be copied
	newIndex *transfer.BuiltIndexes // made for the next root; nil: none
}

// PlanGarbage lists the garbage of the remote: the objects that no ref reaches. It writes
// nothing. It reads a node from local, if local is not nil and has it, or else from the
// remote. If a reachable object is missing or damaged, the error is a [*NeededError]. The
// Remote must not be used until the caller closes the collection.
func PlanGarbage(ctx context.Context, r *transfer.Remote, local object.Reader, o Options) (*Collection, error) {
	c := newCollection(r, local, o)
	head, err := transfer.HeadToWrite(ctx, r)
	if err == nil {
		err = r.Log().MayCollect(head)
	}
	if err == nil && !o.DryRun {
		err = checkPermission(ctx, r, head)
	}
	if err == nil {
		err = c.planFrom(ctx, head)
	}
	if err == nil {
		err = c.countPlanned(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ErrNoDelete says that the credentials do not permit deletions on a remote. A
// collection then changes nothing.
var ErrNoDelete = errors.New("garbage collection needs permission to delete")

// deletionChecker is a store with a permission to delete of its own. Its MayDelete
// returns an error that matches [remote.ErrPermission] if the credentials lack it.
type deletionChecker interface {
	MayDelete(ctx context.Context) error
}

// checkPermission returns an error if this process may not write to a remote or delete there.
func checkPermission(ctx context.Context, r *transfer.Remote, head *rootlog.State) error {
	if err := r.CheckWritable(ctx, head); err != nil {
		return err
	}
	store, ok := remote.As[deletionChecker](r.Backend())
	if !ok {
		return nil
	}
	err := retry.Do(ctx, r.Options().Retry, "delete", store.MayDelete)
	if errors.Is(err, remote.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrNoDelete, err)
	}
	return err
}

func newCollection(r *transfer.Remote, local object.Reader, o Options) *Collection {
	if o.Jobs <= 0 {
		o.Jobs = r.Options().Jobs
	}
	files := knownFiles{rootTimes: map[uint64]time.Time{}, ownSizes: map[string]int64{}, condemned: map[string]bool{}, deleted: map[string]bool{}}
	return &Collection{knownFiles: files, r: r, local: local, options: o, meter: transfer.NewMeter(o.Progress), wasRepacked: map[pack.Name]bool{}}
}

// Close ends the collection.
func (c *Collection) Close() {
	if c.reach != nil {
		c.reach.close()
	}
	if c.newPacks != nil {
		c.newPacks.close()
	}
	c.newIndex.Close()
}

// Stats returns the totals of the plan or, after Apply, of the collection.
func (c *Collection) Stats() Stats { return c.stats }

// Apply carries the plan out. It can be stopped at any moment: the next collection
// completes its work. Errors are as for [PlanGarbage], or a [*rootlog.UnknownError].
// Apply may be called once.
func (c *Collection) Apply(ctx context.Context) error {
	st := &c.stats
	*st = Stats{Live: st.Live, Packs: st.Packs, Before: st.Before, After: st.Before, ArchiveStats: st.ArchiveStats}
	if err := c.condemnGarbage(ctx); err != nil {
		return err
	}
	if err := c.deleteDue(ctx); err != nil {
		return err
	}
	if err := c.forgetDeleted(ctx); err != nil {
		return err
	}
	if err := removeTemps(ctx, c.r, c.options.PruneAge); err != nil {
		return err
	}
	return c.countWaiting(ctx)
}

// planFrom makes the plan at a head or, if a pack is gone, at a later one.
func (c *Collection) planFrom(ctx context.Context, head *rootlog.State) error {
	return c.r.RetryAtHead(ctx, head, func(head *rootlog.State) error { return c.planAt(ctx, head) })
}

// planAt finds the reachable objects at a head, and chooses the packs to copy.
func (c *Collection) planAt(ctx context.Context, head *rootlog.State) (err error) {
	if c.reach != nil {
		c.reach.close()
	}
	if c.reach, err = newReachFinder(c.r, c.local, c.options.Jobs); err != nil {
		return err
	}

	c.reach.readsOtherCopies = c.repair != nil
	if c.snap, err = c.r.SnapshotAt(ctx, head); err != nil {
		return err
	}

	c.endedHolds = endHolds(c.r, c.snap)
	if _, err := c.reach.moveToRoot(c.snap); err != nil {
		return err
	}

	c.claimSnap = c.snap
	first := c.listed == nil
	bytes, err := c.listFiles(ctx, c.r)
	if err != nil {
		return err
	}
	if first {
		c.stats.Before, c.stats.After = bytes, bytes
	}
	if err := c.findReachable(ctx); err != nil {
		return err
	}
	if c.repair != nil {
		c.repair.chooseDamaged(c.livePacks)
		return nil
	}
	for _, p := range c.livePacks {
		p.archived = c.listed[p.Name.Path()].Archived
	}
	if err := c.reach.notePurged(ctx, c.livePacks); err != nil {
		return err
	}
	if err := c.choosePacksToRepack(ctx); err != nil {
		return err
	}
	if err := findOldEpochs(ctx, c); err != nil {
		return err
	}

	choosePacksToRewrite(c.livePacks, c.options.MaxWaste)
	return leaveUnreadable(ctx, c)
}

// endHolds makes snap ignore the holds that have ended by the clock here, and returns them. The root that condemns
// garbage records that they have ended.
func endHolds(r *transfer.Remote, snap *transfer.Snapshot) []record.Record {
	set := snap.State.Records.Clone()
	set.EndHolds(r.Options().Now(), r.Options().Who, r.Options().Host)
	snap.Records = snap.ViewOf(set)
	return set.Newer(snap.State.Records)
}

// findReachable finds the objects that refs reach and that were not found before. It counts those
// of each pack, and checks that the packs exist.
func (c *Collection) findReachable(ctx context.Context) (err error) {
	if err := c.reach.findFromRoots(ctx); err != nil {
		return err
	}
	if c.livePacks, err = c.reach.countPackUse(); err != nil {
		return err
	}
	c.stats.Live, c.stats.Packs = c.reach.reachedCount, len(c.livePacks)
	return c.checkPacksExist(ctx)
}

// followTo continues the collection at a later head. It keeps the reachable objects that it knows,
// if possible, and finds the garbage again (REACH_EACH_HEAD).
func (c *Collection) followTo(ctx context.Context, snap *transfer.Snapshot) error {
	err := c.nextClaim().Check(snap.State, snap.Live)
	follows := err == nil && !c.newPacks.areNamedIn(snap) && !c.repair.damage().ReachesLost()
	if follows {
		follows, err = c.reach.moveToRoot(snap)
	} else if errors.Is(err, rootlog.ErrReplan) || errors.Is(err, rootlog.ErrFloor) {
		err = nil
	}
	if err != nil {
		return err
	}
	if follows {
		c.snap = snap
		c.endedHolds = endHolds(c.r, snap)
		if err = c.findReachable(ctx); !errors.Is(err, remote.ErrNotFound) {
			return err
		}
	}
	// The copies are useless now (CHECK_REPACKED).
	c.abandonNewPacks()
	return c.planFrom(ctx, snap.State)
}
