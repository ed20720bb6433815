package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// What is usual for the ages in [CollectOptions].
const (
	DefaultGrace       = 24 * time.Hour
	DefaultDelistAfter = 30 * 24 * time.Hour
	DefaultOrphanAge   = 30 * 24 * time.Hour
)

// CollectOptions say what [Remote.PlanGC] plans. None of the ages is needed for
// safety: what is too short costs others that they plan again.
type CollectOptions struct {
	// Grace is how long after it was condemned a file is deleted: readers that
	// began before may still need it. 0: at once.
	Grace time.Duration

	// DelistAfter is how long after it was condemned a deleted file is
	// forgotten. Pushes that began before have to begin anew then. 0: at once.
	DelistAfter time.Duration

	// OrphanAge is how old a file has to be, by the store's clock, to be
	// condemned though no root has ever named it: a push that is under way or
	// will be resumed may have sent it. 0: of any age.
	OrphanAge time.Duration

	// MaxWaste is the share of what is left, from 0 to 1, that may be garbage.
	// Packs are repacked, the worst first, until it is not more.
	MaxWaste float64

	// Optimise has packs stored anew in which much is compressed, or nodes: with
	// objects as patches of others. What was optimised before is left alone, or done
	// once more with what is new, as long as it is little.
	Optimise bool

	DryRun   bool           // the plan will not be applied
	Jobs     int            // requests under way at once; 0: as the Remote
	Progress func(Progress) // told how far Apply is with copying, one call at a time; may be nil
}

// CollectStats tell what a collection would do, and after it was applied, what
// it did. Files are packs, index files and state files.
type CollectStats struct {
	Live    int64 // objects that refs reach
	Removed int64 // objects in condemned packs that nothing reaches
	Packs   int   // live, before

	Condemned      int   // files
	CondemnedBytes int64 // of them
	Repacked       int   // condemned packs of which something was copied, but for those that were optimised
	Optimised      int   // condemned packs that were
	OptimisedBytes int64 // of these
	Patches        int64 // objects stored as patches; of an applied plan
	Written        int   // packs that was copied to; of an applied plan
	Indexes        int   // index files among the condemned

	Deleted  int // files
	Delisted int // files

	// Files that are condemned and not old enough to be deleted, their bytes,
	// and when the first of them is.
	Waiting      int
	WaitingBytes int64
	Next         time.Time

	Before, After int64 // bytes of all files
}

// Collection is a collection of garbage on a remote: what would be condemned,
// deleted and delisted. It follows section "Collecting" of
// docs/format/remote.md. There may be any number of them at once.
type Collection struct {
	r      *Remote
	local  object.Reader
	o      CollectOptions
	stats  CollectStats
	meter  *meter
	listed map[string]remote.Info // files in the store
	times  map[uint64]time.Time   // of roots that condemned something

	marker *marker
	packs  []*usage           // live at snap
	looked map[pack.Name]bool // whether packs are optimised, as far as their headers were read
	snap   *snapshot
	start  *snapshot       // S: all was marked there
	ended  []record.Record // holds that are over at snap

	mend      *mending         // nil: this is no repair
	own       *copies          // nil: nothing was copied yet
	index     *builtIndex      // made for the next root; nil: none
	made      map[string]int64 // files of our own, and their sizes
	abandoned []string         // those of them that no root will name
	condemned map[string]bool  // by this collection
	deleted   map[string]bool
}

// PlanGC finds out what on the remote is garbage: what its refs do not reach.
// It writes nothing. Nodes are read from local where that has them, which may
// be nil, and else from the remote. If something that refs reach is missing or
// damaged, the error is a [*NeededError]. The Remote is not to be used for
// anything else until the collection is closed.
func (r *Remote) PlanGC(ctx context.Context, local object.Reader, o CollectOptions) (*Collection, error) {
	c := newCollection(r, local, o)
	head, err := r.Head(ctx)
	if err == nil && !o.DryRun {
		err = r.mayWrite(head)
	}
	if err == nil {
		err = c.plan(ctx, head)
	}
	if err == nil {
		err = c.foresee(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newCollection(r *Remote, local object.Reader, o CollectOptions) *Collection {
	if o.Jobs <= 0 {
		o.Jobs = r.o.Jobs
	}
	return &Collection{
		r: r, local: local, o: o, meter: &meter{tell: o.Progress},
		times: map[uint64]time.Time{}, looked: map[pack.Name]bool{}, made: map[string]int64{}, condemned: map[string]bool{}, deleted: map[string]bool{},
	}
}

// Close ends the collection.
func (c *Collection) Close() {
	if c.marker != nil {
		c.marker.close()
	}
	if c.own != nil {
		c.own.close()
	}
	if c.index != nil {
		c.index.close()
	}
}

// Stats returns what the collection would do, or has done.
func (c *Collection) Stats() CollectStats { return c.stats }

// Apply does it. It can be stopped at any moment: the next collection ends what
// it has begun. Errors are those of [Remote.PlanGC], and [*rootlog.UnknownError].
// It may be called once.
func (c *Collection) Apply(ctx context.Context) error {
	st := &c.stats
	*st = CollectStats{Live: st.Live, Packs: st.Packs, Before: st.Before, After: st.Before}
	if err := c.condemn(ctx); err != nil {
		return err
	}
	if err := c.delete(ctx); err != nil {
		return err
	}
	if err := c.delist(ctx); err != nil {
		return err
	}
	if err := c.removeTemps(ctx); err != nil {
		return err
	}
	return c.countWaiting(ctx)
}

// plan marks everything at a head or, if a pack is gone, at a later one.
func (c *Collection) plan(ctx context.Context, head *rootlog.State) error {
	return c.r.following(ctx, head, func(head *rootlog.State) error { return c.planAt(ctx, head) })
}

func (c *Collection) planAt(ctx context.Context, head *rootlog.State) (err error) {
	if c.marker != nil {
		c.marker.close()
	}
	if c.marker, err = newMarker(c.r, c.local, c.o.Jobs); err != nil {
		return err
	}
	c.marker.mends = c.mend != nil
	if c.snap, err = c.r.snapshotAt(ctx, head); err != nil {
		return err
	}
	c.endHolds(c.snap)
	if _, err := c.marker.follow(c.snap); err != nil {
		return err
	}
	c.start = c.snap
	if err := c.list(ctx); err != nil {
		return err
	}
	if err := c.mark(ctx); err != nil {
		return err
	}
	if c.mend != nil {
		c.mend.choose(c.packs)
		return nil
	}
	if err := c.marker.notePurged(ctx, c.packs); err != nil {
		return err
	}
	if err := c.chooseOptimised(ctx); err != nil {
		return err
	}
	chooseRepacked(c.packs, c.o.MaxWaste)
	return nil
}

// endHolds has holds that are over by the clock here count no more: the root that
// condemns says that they have ended.
func (c *Collection) endHolds(snap *snapshot) {
	set := snap.state.Records.Clone()
	set.EndHolds(c.r.o.Now(), c.r.o.Who, c.r.o.Host)
	c.ended, snap.records = set.Newer(snap.state.Records), snap.view(set)
}

// mark marks what the refs reach, as far as that is not done, and finds out
// what is needed of each pack.
func (c *Collection) mark(ctx context.Context) (err error) {
	if err := c.marker.update(ctx); err != nil {
		return err
	}
	if c.packs, err = c.marker.usage(); err != nil {
		return err
	}
	c.stats.Live, c.stats.Packs = c.marker.kept, len(c.packs)
	return c.checkThere(ctx)
}

// moveTo has the collection go on at a later head. It finds the garbage again
// (MARK_EACH_HEAD); only the marks stay.
func (c *Collection) moveTo(ctx context.Context, snap *snapshot) error {
	err := c.claim().Check(snap.state, snap.live())
	follows := err == nil && !c.named(snap) && !c.mend.loses()
	if follows {
		follows, err = c.marker.follow(snap)
	} else if errors.Is(err, rootlog.ErrReplan) || errors.Is(err, rootlog.ErrFloor) {
		err = nil
	}
	if err != nil {
		return err
	}
	if follows {
		c.snap = snap
		c.endHolds(snap)
		if err = c.mark(ctx); !errors.Is(err, remote.ErrNotFound) {
			return err
		}
	}
	// What we have copied is of no use any more (CHECK_REPACKED).
	c.abandon()
	return c.plan(ctx, snap.state)
}
