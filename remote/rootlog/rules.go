package rootlog

import (
	"maps"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
)

// Claim is the set of things that a writer relies on when it makes objects reachable. It
// was planned at one head, S, and must hold at the head that its root will follow. See
// docs/format/remote.md, "Push", step 3.
type Claim struct {
	// Live are all packs that were live at S. The writer relies on all of them, and
	// not only on those in which it looked something up, because it relies on every
	// object that a ref of S reaches.
	Live map[pack.Name]struct{}

	// Start is the number of S0: the head when the writer began its first file. It
	// stays the same when the writer plans again, or resumes the push of another
	// process (RESUME_AT_START).
	Start uint64

	Own      []string // full names of the writer's own packs, index and state files
	HasPacks bool     // some of them are packs
	Refs     []RefChange

	// Lost are the objects that were listed as lost at S. The plan sends
	// objects that the list names.
	Lost map[object.Key]string

	// Records are the records of the plan. The writer neither sent nor relies on
	// content that they purge.
	Records *record.Set
}

// Check returns nil if the claim holds at head, whose live packs are live. Otherwise it
// returns the first of [ErrRefMoved], [ErrFloor] and [ErrReplan] that applies: a
// writer that gives up all packs, after ErrFloor, also plans again, as after ErrReplan.
//
// Check does not know whether the move of a ref is a fast-forward.
func (c *Claim) Check(head *State, live map[pack.Name]struct{}) error {
	// ONE_ROOT: one root decides about refs and live packs.
	if err := checkRefs(head.Refs, c.Refs); err != nil {
		return err
	}

	// HEED_FLOOR: a pack from before the floor may have been condemned, deleted and
	// delisted, so Condemned may no longer list it. EPOCH_OF_HEAD: a removed recipient can read a
	// pack from before the epoch.
	if (c.HasPacks || len(c.Own) > 0) && c.Start < head.LeastStart() {
		return ErrFloor
	}

	// RECHECK_HEAD, CHECK_REPACKED, CHECK_CHECKPOINTS, CONDEMNED_IS_FINAL:
	// condemned is final, also for files that were never live.
	for _, name := range c.Own {
		if _, condemned := head.Condemned[name]; condemned {
			return ErrReplan
		}
	}

	// RELY_ON_ALL_LIVE, HOLD_FROM_LIVE, UNDO_FROM_LIVE: live(S) is part of
	// live(h). So an index file that merges entries of S names live packs only
	// (IDX_REMAKE, IDX_LIVE_ONLY).
	for name := range c.Live {
		if _, ok := live[name]; !ok {
			return ErrReplan
		}
	}

	// Everything reachable from the refs of S was present, except the objects listed then.
	if !maps.Equal(head.Lost, c.Lost) {
		return ErrReplan
	}

	// Content that was purged after the plan must not come back.
	for _, r := range head.Records.Newer(c.Records) {
		if r.Kind == record.Purge && r.On {
			return ErrReplan
		}
	}
	return nil
}
