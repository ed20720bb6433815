package transfer

import (
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
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
		b := newRemote(t)
		p := newPusher(t, b)
		at := p.grow(0)
		most := 0
		b.ResetCounts()
		for i := range pushes {
			before := b.Calls(remotetest.Any)
			at = p.grow(i+1, at)
			if _, err := p.remote.Push(t.Context(), p.local, PushOptions{
				Updates: []RefUpdate{{Name: mainRef, New: commitKeys(at)[0]}}, Head: mainRef, KeepSmall: keep,
			}); err != nil {
				t.Fatal(err)
			}
			most = max(most, b.Calls(remotetest.Any)-before)
		}
		t.Logf("keep small %v: %d requests for %d pushes, at most %d for one", keep, b.Calls(remotetest.Any), pushes, most)
		if n := b.Calls(remotetest.Delete); n > 0 {
			t.Errorf("the pushes made %d deletions, want 0", n)
		}

		b.ResetCounts()
		if err := fetchAll(t, b); err != nil {
			t.Fatal(err)
		}
		requests[keep] = b.Calls(remotetest.Any)
		checked := wantIntact(t, b, map[string]object.ID{"main": at})
		if keep {
			continue
		}
		if checked.Packs > 4*mergeFrom || checked.Indexes > 2*manyIndexes {
			t.Errorf("%d packs, %d index files", checked.Packs, checked.Indexes)
		}
		for range 3 { // a collection deletes the merged packs
			mustCollect(t, b, atOnce)
		}
		wantNoGarbage(t, b)
		wantIntact(t, b, map[string]object.ID{"main": at})
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
	b := newRemote(t)
	p := newPusher(t, b)
	p.keepSmall = true
	at := p.grow(0)
	for i := range 12 {
		at = p.grow(i+1, at)
		p.mustPush("main", at)
	}
	packs := len(b.Names("packs/"))
	b.ResetCounts()
	if st := mustCollect(t, b, CollectOptions{MaxWaste: 1, Grace: DefaultGrace}); st.Rewritten != packs {
		t.Fatalf("collection: %+v, want %d packs rewritten", st, packs)
	}
	// The other reads are kist.json, twice, and roots.
	if n := b.Calls(remotetest.Get); n > packs+10 {
		t.Errorf("%d reads for %d packs", n, packs)
	}
}
