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

// pushTwice has two clones push the same commit at once. So each object is in two packs. If
// optimise is true, one of these is optimised.
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

// TestRepairFromCopies checks that a repair takes the objects of a damaged pack from intact
// copies.
func TestRepairFromCopies(t *testing.T) {
	t.Parallel()
	for _, optimise := range []bool{false, true} {
		start := newRemote(t)
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
				t.Errorf("repair of %s: %+v, %v", name, result, err)
				continue
			}
			wantIntact(t, b, map[string]object.ID{"main": id, "other": id})
		}
	}
}

// TestRepairBesidePush checks that a repair also sends objects of a damaged pack that a
// concurrent push makes reachable.
func TestRepairBesidePush(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
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
		t.Errorf("repair: %+v, %v", result, err)
	}
	wantIntact(t, b, want)
}

// A collection and a concurrent repair leave the remote intact. The repair rebuilds a lost
// index file from all packs on the remote, including the new packs of the collection.
func TestCollectBesideRepair(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		b := newRemote(t)
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
			wantIntact(t, b, want)
		}})

		if _, err := collectIn(t, faulty, nil, CollectOptions{PruneAge: math.MaxInt64}); err != nil {
			t.Error(err)
		}
		wantIntact(t, b, want)
		mustCollect(t, b, atOnce)
		wantIntact(t, b, want)
		if t.Failed() {
			t.Fatalf("run %d", n)
		}
	}
}

// TestMarkerFollows checks that a marker does not move to a head that condemns a pack with
// marked objects, even if an index file still names the pack.
func TestMarkerFollows(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
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
			t.Errorf("snapshot %d: follow = %v, %v; want %v", i, follows, err, want)
		}
	}
}

// TestBuiltIndexFits checks that an index file does not fit if one of its packs goes. It may
// omit copies in packs that stay.
func TestBuiltIndexFits(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p := newPusher(t, b)
	p.mustPush("main", p.grow(1))
	snap, err := p.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := &builtIndex{named: snap.packs}
	for _, gone := range []bool{false, true} {
		if x.fits(snap, nil, func(pack.Name) bool { return gone }) == gone {
			t.Errorf("fits = %v, want %v", gone, !gone)
		}
	}
}
