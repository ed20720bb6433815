package collect_test

import (
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestPushMerges checks that packs and index files stay few after many pushes, and so do the
// requests of a clone. Merged files are condemned, not deleted.
func TestPushMerges(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	const pushes = 70
	requests := map[bool]int{}
	for _, keep := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		p := transfertest.NewPusher(t, b)
		p.KeepSmall = keep
		at := p.MakeGrown(0)
		most := 0
		b.ResetCounts()
		for i := range pushes {
			before := b.Calls(remotetest.Any)
			at = p.MakeGrown(i+1, at)
			p.MustPush("main", at)
			most = max(most, b.Calls(remotetest.Any)-before)
		}
		t.Logf("keep small %v: %d requests for %d pushes, at most %d for one", keep, b.Calls(remotetest.Any), pushes, most)
		if n := b.Calls(remotetest.Delete); n > 0 {
			t.Errorf("the pushes made %d deletions, want 0", n)
		}

		b.ResetCounts()
		if err := transfertest.FetchAll(t, b); err != nil {
			t.Fatal(err)
		}
		requests[keep] = b.Calls(remotetest.Any)
		checked := transfertest.WantIntact(t, b, map[string]object.ID{"main": at})
		if keep {
			continue
		}
		if checked.Packs > 4*collect.MinPacksToMerge || checked.Indexes > 2*collect.MaxIndexFiles {
			t.Errorf("%d packs, %d index files", checked.Packs, checked.Indexes)
		}
		for range 3 { // a collection deletes the merged packs
			transfertest.MustCollect(t, b, transfertest.AtOnce)
		}
		transfertest.WantNoGarbage(t, b)
		transfertest.WantIntact(t, b, map[string]object.ID{"main": at})
	}
	t.Logf("a clone makes %d requests, without merging %d", requests[false], requests[true])
	if requests[false]*3 > requests[true] {
		t.Errorf("a clone makes %d requests, without merging %d", requests[false], requests[true])
	}
}

// TestCollectReadsSmallPacksOnce checks that a collection that repacks many small packs reads
// each pack once.
func TestCollectReadsSmallPacksOnce(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.KeepSmall = true
	at := p.MakeGrown(0)
	for i := range 12 {
		at = p.MakeGrown(i+1, at)
		p.MustPush("main", at)
	}
	packs := len(b.Names("packs/"))
	b.ResetCounts()
	if st := transfertest.MustCollect(t, b, collect.Options{MaxWaste: 1, Grace: collect.DefaultGrace}); st.Rewritten != packs {
		t.Fatalf("collection: %+v, want %d packs rewritten", st, packs)
	}
	// The other reads are kist.json, twice, roots, and both copies of the keyset.
	others := 10
	if transfertest.IsOverCrypt(t) {
		others += 2
	}
	if n := b.Calls(remotetest.Get); n > packs+others {
		t.Errorf("%d reads for %d packs", n, packs)
	}
}
