package transfer

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
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
			mustCollect(t, b, CollectOptions{Repack: true, PruneAge: math.MaxInt64, ForgetAfter: time.Hour})
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

// TestRepairBesidePush has a push come to need more of a damaged pack, when all
// that was needed of it was sent again.
func TestRepairBesidePush(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	p := newPusher(t, b)
	p.mustPush("all", p.many(1, 30))
	chunks := b.Names("packs/")
	want := map[string]object.ID{"some": p.many(1, 10)}
	p.mustPush("some", want["some"])
	newCollector(t, b).delete("all")
	for _, name := range chunks {
		b.Damage(name, remote.HeaderSize+5)
	}
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		want["more"] = p.many(1, 20)
		p.mustPush("more", want["more"])
	}})
	r, err := openTest(t, faulty, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Repair(t.Context(), p.local, RepairOptions{})
	if err != nil || len(result.Lost) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	wantWhole(t, b, want)
}

// TestCollectBesideRepair has an index file be lost while a collector is at work,
// and a repair that finds what to name by the packs that are there: those of the
// collector are among them.
func TestCollectBesideRepair(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		b := newRemoteIn(t)
		p := newPusher(t, b)
		want := map[string]object.ID{"keep": p.grow(1, p.many(1, 460))}
		p.mustPush("keep", want["keep"])
		p.mustPush("both", p.grow(2, p.many(2, 460)))
		want["half"] = p.commit(p.tree(map[string]string{"f1": noise(200_001, 60)}, nil))
		p.mustPush("half", want["half"])
		newCollector(t, b).delete("both")
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
			lost := b.Names("index/")
			if n%2 == 0 {
				want["new"] = p.many(3, 460)
				p.mustPush("new", want["new"])
				lost = slices.DeleteFunc(b.Names("index/"), func(name string) bool { return slices.Contains(lost, name) })
			}
			for _, name := range lost {
				b.Remove(name)
			}
			r, err := openTest(t, b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if result, err := r.Repair(t.Context(), p.local, RepairOptions{}); err != nil || len(result.Lost) > 0 {
				t.Errorf("repair: %+v, %v", result, err)
			}
			wantWhole(t, b, want)
		}})
		if _, err := collectIn(t, faulty, nil, CollectOptions{PruneAge: math.MaxInt64}); err != nil {
			t.Error(err)
		}
		wantWhole(t, b, want)
		mustCollect(t, b, atOnce)
		wantWhole(t, b, want)
		if t.Failed() {
			t.Fatalf("run %d", n)
		}
	}
}

// TestMarkerFollows has a pack be condemned that an index file still names: what
// was marked in it is marked nowhere.
func TestMarkerFollows(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	p := newPusher(t, b)
	p.mustPush("main", p.many(1, 460))
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMarker(r, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for i, want := range []bool{true, true, false} {
		if i == 2 {
			newCollector(t, b).condemn(b.Names("packs/")[0])
		}
		snap, err := r.snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if follows, err := m.follow(snap); err != nil || follows != want {
			t.Errorf("%d: %v, %v", i, follows, err)
		}
	}
}

// TestBuiltIndexFits has a pack go that an index file names: of two copies it may
// have left out the one that stays.
func TestBuiltIndexFits(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	p := newPusher(t, b)
	p.mustPush("main", p.grow(1))
	snap, err := p.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := &builtIndex{named: snap.packs}
	for _, gone := range []bool{false, true} {
		if x.fits(snap, nil, func(pack.Name) bool { return gone }) == gone {
			t.Errorf("packs go: %v", gone)
		}
	}
}
