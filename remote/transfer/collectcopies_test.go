package transfer

import (
	"math"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// pushTwice has two clones push the same commit at once, so that all is in two
// packs, of which one is optimised or none.
func pushTwice(t testing.TB, b *remotetest.Memory, optimise bool) object.ID {
	t.Helper()
	faulty := remotetest.NewFaulty(b)
	p, other := newPusher(t, faulty), newPusher(t, b)
	id := p.grow(1)
	other.grow(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		other.mustPush("other", id)
		if optimise {
			mustCollect(t, b, CollectOptions{Optimise: true, OrphanAge: math.MaxInt64, DelistAfter: time.Hour})
		}
	}})
	p.mustPush("main", id)
	return id
}

// TestRepairFromCopies has a pack damaged whose objects are whole in another one.
func TestRepairFromCopies(t *testing.T) {
	t.Parallel()
	for _, optimise := range []bool{false, true} {
		start := newRemoteIn(t)
		id := pushTwice(t, start, optimise)
		before := start.Snapshot()
		for _, name := range start.Names("packs/") {
			b := remotetest.NewMemory()
			b.Restore(before)
			b.Damage(name, remote.HeaderSize+50)
			r, err := openTest(t, b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			result, err := r.Repair(t.Context(), newMemoryLocal(), RepairOptions{})
			if err != nil || len(result.Lost) > 0 || len(result.Repaired) != 1 {
				t.Errorf("%s: %+v, %v", name, result, err)
				continue
			}
			wantWhole(t, b, map[string]object.ID{"main": id, "other": id})
		}
	}
}
