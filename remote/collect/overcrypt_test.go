package collect_test

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestOverCrypt runs tests of this package again, with encrypted remotes.
func TestOverCrypt(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"TestCheckFindsDamage", TestCheckFindsDamage},
		{"TestCheckRequests", TestCheckRequests},
		{"TestCheckWhileCollected", TestCheckWhileCollected},
		{"TestCheckWithoutAnswer", TestCheckWithoutAnswer},
		{"TestCheckSubset", TestCheckSubset},
		{"TestCheckSample", TestCheckSample},
		{"TestCollectEverything", TestCollectEverything},
		{"TestCollectSome", TestCollectSome},
		{"TestCollectRepacks", TestCollectRepacks},
		{"TestCollectDryRun", TestCollectDryRun},
		{"TestCollectOrphans", TestCollectOrphans},
		{"TestRepairFromCopies", TestRepairFromCopies},
		{"TestRepairBesidePush", TestRepairBesidePush},
		{"TestCollectBesideRepair", TestCollectBesideRepair},
		{"TestReachFinderMoves", TestReachFinderMoves},
		{"TestBuiltIndexFits", TestBuiltIndexFits},
		{"TestCollectDelistsIndex", TestCollectDelistsIndex},
		{"TestCollectDamaged", TestCollectDamaged},
		{"TestCollectCopiesDamaged", TestCollectCopiesDamaged},
		{"TestCollectInterrupted", TestCollectInterrupted},
		{"TestLostRoots", TestLostRoots},
		{"TestNoRootsYet", TestNoRootsYet},
		{"TestPushMerges", TestPushMerges},
		{"TestCollectReadsSmallPacksOnce", TestCollectReadsSmallPacksOnce},
		{"TestPutBack", TestPutBack},
		{"TestPutBackRefuses", TestPutBackRefuses},
		{"TestCollectLosesRace", TestCollectLosesRace},
		{"TestFetchWhileCollected", TestFetchWhileCollected},
		{"TestCollectBesideOthers", TestCollectBesideOthers},
		{"TestCollectExpired", TestCollectExpired},
		{"TestRepack", TestRepack},
		{"TestCollectRepacked", TestCollectRepacked},
		{"TestRepackMany", TestRepackMany},
		{"TestRepackBesidePush", TestRepackBesidePush},
		{"TestRepackDamaged", TestRepackDamaged},
		{"TestRepackInterrupted", TestRepackInterrupted},
		{"TestRepairRepacked", TestRepairRepacked},
		{"rekey", testRekey},
		{"rekey beside others", testRekeyBesideOthers},
		{"rekey interrupted", testRekeyInterrupted},
	} {
		t.Run(test.name, test.run)
	}
}

// rekeyed is a collection that encrypts everything with the newest key.
var rekeyed = collect.Options{Rekey: true, MaxWaste: 1}

// rotate begins a new epoch.
func rotate(t *testing.T, b *remotetest.Memory) {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := transfer.ChangeKeyset(t.Context(), r, keyset.Plugins{}, (*keyset.Keyset).Rotate); err != nil {
		t.Fatal(err)
	}
}

// epochs returns the epochs of all packs and index files, and the newest one.
func epochs(t *testing.T, b *remotetest.Memory) (all []uint32, newest uint32) {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	head, err := r.Head(t.Context())
	if err == nil {
		all, err = transfer.EpochsOf(t.Context(), r, slices.Concat(b.Names("packs/"), b.Names("index/")))
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, head.Keys.Epoch.Number
}

// wantNewest checks that all packs and index files are encrypted with the newest key.
func wantNewest(t *testing.T, b *remotetest.Memory) {
	t.Helper()
	if all, newest := epochs(t, b); len(all) == 0 || slices.ContainsFunc(all, func(e uint32) bool { return e != newest }) {
		t.Errorf("files of the epochs %d, want %d", all, newest)
	}
}

// beforeRekey returns a remote with packs and index files of two epochs, after a third has begun, and its branches.
func beforeRekey(t *testing.T) (*remotetest.Memory, *transfertest.Pusher, map[string]object.ID) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	refs := map[string]object.ID{"large": p.MakeMany(1, 460)}
	p.MustPush("large", refs["large"])
	rotate(t, b)
	refs["small"] = p.MakeGrown(2, refs["large"])
	p.MustPush("small", refs["small"])
	rotate(t, b)
	return b, p, refs
}

// testRekey checks that a collection replaces exactly the files of older epochs, and condemns the older keysets.
func testRekey(t *testing.T) {
	t.Parallel()
	b, p, refs := beforeRekey(t)
	if all, newest := epochs(t, b); newest != 3 || !slices.Contains(all, 1) || !slices.Contains(all, 2) || slices.Contains(all, 3) {
		t.Fatalf("files of the epochs %d, the newest is %d", all, newest)
	}
	transfertest.MustCollect(t, b, collect.Options{MaxWaste: 1})
	if n := len(b.Names("keys/")); n != 2 {
		t.Errorf("%d copies of keysets are left, want those of the head", n)
	}
	if all, _ := epochs(t, b); slices.Contains(all, 3) {
		t.Errorf("a collection without Rekey replaced files: epochs %d", all)
	}

	refs["new"] = p.MakeGrown(3, refs["small"])
	p.MustPush("new", refs["new"])
	transfertest.MustCollect(t, b, rekeyed)
	wantNewest(t, b)
	transfertest.WantIntact(t, b, refs)
	for range 2 {
		transfertest.MustCollect(t, b, rekeyed)
	}
	transfertest.WantNoGarbage(t, b)
	if st := transfertest.MustCollect(t, b, rekeyed); st.Condemned+st.Written > 0 {
		t.Errorf("there is nothing to do: %+v", st)
	}
}

// testRekeyBesideOthers checks a collection while somebody pushes, collects, or begins another epoch.
func testRekeyBesideOthers(t *testing.T) {
	t.Parallel()
	b, p, refs := beforeRekey(t)
	before := b.Snapshot()
	for what, beside := range map[string]func(b *remotetest.Memory, p *transfertest.Pusher, refs map[string]object.ID){
		"a push": func(_ *remotetest.Memory, p *transfertest.Pusher, refs map[string]object.ID) {
			refs["new"] = p.MakeMany(5, 460, refs["large"])
			p.MustPush("new", refs["new"])
		},
		"a rotation": func(b *remotetest.Memory, _ *transfertest.Pusher, _ map[string]object.ID) { rotate(t, b) },
		"a collection": func(b *remotetest.Memory, _ *transfertest.Pusher, _ map[string]object.ID) {
			transfertest.MustCollect(t, b, rekeyed)
		},
	} {
		b, refs := remotetest.NewMemory(), map[string]object.ID{"large": refs["large"], "small": refs["small"]}
		b.Restore(before)
		p.Reopen(b)
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { beside(b, p, refs) }})
		if _, err := transfertest.CollectIn(t, faulty, nil, rekeyed); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		transfertest.WantIntact(t, b, refs)
		for range 3 {
			transfertest.MustCollect(t, b, rekeyed)
		}
		wantNewest(t, b)
		transfertest.WantNoGarbage(t, b)
		transfertest.WantIntact(t, b, refs)
		if t.Failed() {
			t.Fatalf("beside %s", what)
		}
	}
}

// testRekeyInterrupted kills a collection at its calls. The next ones complete the work.
func testRekeyInterrupted(t *testing.T) {
	t.Parallel()
	b, _, refs := beforeRekey(t)
	step := 3
	if testing.Short() {
		step = 12
	}
	interruptEach(t, b.Snapshot(), rekeyed, func(n int) int { return n + step }, func(b *remotetest.Memory, ended bool) {
		transfertest.WantIntact(t, b, refs)
		if ended {
			wantNewest(t, b)
		}
	})
}
