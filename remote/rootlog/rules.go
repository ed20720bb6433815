package rootlog

import (
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
)

// Claim is what a writer relies on when it makes something reachable: it was
// planned at one head, and has to hold at the head that its root will follow.
// See docs/format/remote.md, "Push", step 3.
type Claim struct {
	// Live are the packs that were live at S, the head of the plan. All of
	// them, not only those in which something was looked up: that a ref of S
	// reaches an object is a reason to rely on it, too.
	Live map[pack.Name]struct{}

	// Start is the number of S0: the head when the first of the writer's own
	// files was begun. It stays when the writer plans again, or resumes what
	// another process began (RESUME_AT_START).
	Start uint64

	Own      []string // full names of the writer's own packs, index and state files
	HasPacks bool     // some of them are packs
	Refs     []RefChange

	// Records are those by which it was planned: what they say was purged was
	// not sent, and is not relied on.
	Records *record.Set
}

// Check says whether a root that follows head may rely on the claim; live is
// what is live at head. The error is a [*RefMovedError], [ErrFloor] or
// [ErrReplan], in this order if more than one applies: what ErrFloor asks for
// includes what ErrReplan does.
//
// Check does not know whether moving a ref is a fast-forward.
func (c *Claim) Check(head *State, live map[pack.Name]struct{}) error {
	// ONE_ROOT: refs and what is live are decided by one root.
	if err := checkRefs(head.Refs, c.Refs); err != nil {
		return err
	}
	// HEED_FLOOR: what was uploaded before the floor may have been condemned,
	// deleted and delisted; so Condemned does not tell.
	if (c.HasPacks || len(c.Own) > 0) && c.Start < head.Floor {
		return ErrFloor
	}
	// RECHECK_HEAD, CHECK_REPACKED, CHECK_CHECKPOINTS, CONDEMNED_IS_FINAL:
	// condemned is final, for files that were never live as well.
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
	// Nothing is sent anew that was purged.
	for _, r := range head.Records.Newer(c.Records) {
		if r.Kind == record.Purge && r.On {
			return ErrReplan
		}
	}
	return nil
}
