package collect_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// pushTwice has two clones push the same commit at once. So each object is in two packs. If
// repack is true, one of these is repacked.
func pushTwice(t testing.TB, b *remotetest.Memory, repack bool) object.ID {
	t.Helper()
	faulty := remotetest.NewFaulty(b)
	p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
	id := p.MakeGrown(1)
	other.MakeGrown(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		other.MustPush("other", id)
		if repack {
			transfertest.MustCollect(t, b, collect.Options{Repack: true, PruneAge: math.MaxInt64, ForgetAfter: time.Hour})
		}
	}})
	p.MustPush("main", id)
	return id
}

// TestRepairFromCopies checks that a repair takes the objects of a damaged pack from intact
// copies.
func TestRepairFromCopies(t *testing.T) {
	t.Parallel()
	for _, repack := range []bool{false, true} {
		start := transfertest.NewRemote(t)
		id := pushTwice(t, start, repack)
		before := start.Snapshot()
		for _, name := range start.Names("packs/") {
			b := remotetest.NewMemory()
			b.Restore(before)
			b.Damage(name, remote.HeaderSize+50)
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			result, err := collect.Repair(t.Context(), r, transfertest.NewMemoryLocal(), collect.RepairOptions{})
			if err != nil || len(result.Lost) > 0 || len(result.Repaired) != 1 {
				t.Errorf("repair of %s: %+v, %v", name, result, err)
				continue
			}
			transfertest.WantIntact(t, b, map[string]object.ID{"main": id, "other": id})
		}
	}
}

// TestRepairBesidePush checks that a repair also sends objects of a damaged pack that a
// concurrent push makes reachable.
func TestRepairBesidePush(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("all", p.MakeMany(1, 30))
	chunks := b.Names("packs/")
	want := map[string]object.ID{"some": p.MakeMany(1, 10)}
	p.MustPush("some", want["some"])
	transfertest.NewCollector(t, b).DeleteBranch("all")
	for _, name := range chunks {
		b.Damage(name, remote.HeaderSize+5)
	}
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		want["more"] = p.MakeMany(1, 20)
		p.MustPush("more", want["more"])
	}})
	r, err := transfertest.OpenTest(t, faulty, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	result, err := collect.Repair(t.Context(), r, p.Local, collect.RepairOptions{})
	if err != nil || len(result.Lost) > 0 {
		t.Errorf("repair: %+v, %v", result, err)
	}
	transfertest.WantIntact(t, b, want)
}

// A collection and a concurrent repair leave the remote intact. The repair rebuilds a lost
// index file from all packs on the remote, including the new packs of the collection.
func TestCollectBesideRepair(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		b := transfertest.NewRemote(t)
		p := transfertest.NewPusher(t, b)
		want := map[string]object.ID{"keep": p.MakeGrown(1, p.MakeMany(1, 460))}
		p.MustPush("keep", want["keep"])
		p.MustPush("both", p.MakeGrown(2, p.MakeMany(2, 460)))
		want["half"] = p.MakeCommit(p.MakeTree(map[string]string{"f1": objecttest.Noise(200_001, 60)}, nil))
		p.MustPush("half", want["half"])
		transfertest.NewCollector(t, b).DeleteBranch("both")
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
			lost := b.Names("index/")
			if n%2 == 0 {
				want["new"] = p.MakeMany(3, 460)
				p.MustPush("new", want["new"])
				lost = slices.DeleteFunc(b.Names("index/"), func(name string) bool { return slices.Contains(lost, name) })
			}

			for _, name := range lost {
				b.Remove(name)
			}
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if result, err := collect.Repair(t.Context(), r, p.Local, collect.RepairOptions{}); err != nil || len(result.Lost) > 0 {
				t.Errorf("repair: %+v, %v", result, err)
			}
			transfertest.WantIntact(t, b, want)
		}})

		if _, err := transfertest.CollectIn(t, faulty, nil, collect.Options{PruneAge: math.MaxInt64}); err != nil {
			t.Error(err)
		}
		transfertest.WantIntact(t, b, want)
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		transfertest.WantIntact(t, b, want)
		if t.Failed() {
			t.Fatalf("run %d", n)
		}
	}
}

// TestReachFinderMoves checks that a reachFinder does not move to a head that condemns a pack with
// reachable objects, even if an index file still names the pack.
func TestReachFinderMoves(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeMany(1, 460))
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	follow, end, err := collect.NewFollower(r)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for i, want := range []bool{true, true, false} {
		if i == 2 {
			transfertest.NewCollector(t, b).MarkFiles(b.Names("packs/")[0])
		}
		snap, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if follows, err := follow(snap); err != nil || follows != want {
			t.Errorf("snapshot %d: follow = %v, %v; want %v", i, follows, err, want)
		}
	}
}

// TestBuiltIndexFits checks that an index file does not fit if one of its packs is to be condemned.
// It may omit copies in packs that stay live.
func TestBuiltIndexFits(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeGrown(1))
	snap, err := p.Remote.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := &transfer.BuiltIndexes{Named: snap.Live}
	for _, gone := range []bool{false, true} {
		if x.FitsAfter(snap, nil, func(pack.Name) bool { return gone }) == gone {
			t.Errorf("fits = %v, want %v", gone, !gone)
		}
	}
}
