package transfer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// meanwhile calls f once, just before a push sends its first pack.
func meanwhile(faulty *remotetest.Faulty, f func()) {
	faulty.Fail(remotetest.Fault{Op: remotetest.Put, Name: "packs/", Do: f})
}

// TestBaseCollected checks that a push plans again if, after its plan, the branch that it
// builds on is deleted and all packs are condemned (RELY_ON_ALL_LIVE).
func TestBaseCollected(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		faulty := remotetest.NewFaulty(b)
		p := transfertest.NewPusher(t, faulty)
		one := p.MakeGrown(1)
		p.MustPush("base", one)
		gc := transfertest.NewCollector(t, b)
		two := p.MakeGrown(2, one)
		meanwhile(faulty, func() {
			gc.DeleteBranch("base")
			gc.MarkFiles(gc.LivePacks()...)
			if delisted {
				gc.ForgetMarked()
			}
		})
		result := p.MustPush("main", two)
		if !delisted {
			gc.ForgetMarked()
		}
		if all := objecttest.Closure(t, p.Local, objecttest.CommitKeys(two)...); result.Objects < int64(len(all)) {
			t.Errorf("delisted %v: %d of %d objects were sent", delisted, result.Objects, len(all))
		}
		transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
	}
}

// TestPartOfBaseCollected condemns only packs whose objects the push does not rely on. The
// push plans again, but sends no pack again.
func TestPartOfBaseCollected(t *testing.T) {
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	gc := transfertest.NewCollector(t, b)
	before := gc.LivePacks()
	other.MustPush("other", other.MakeCommit(other.MakeTree(map[string]string{"other": objecttest.Noise(1, 100)}, nil)))
	theirs := slices.DeleteFunc(gc.LivePacks(), func(name string) bool { return slices.Contains(before, name) })
	two := p.MakeGrown(2, one)
	meanwhile(faulty, func() {
		gc.DeleteBranch("other")
		gc.MarkFiles(theirs...)
	})
	if result := p.MustPush("main", two); result.Packs != 2 {
		t.Errorf("%d packs were sent, want 2", result.Packs)
	}
	gc.ForgetMarked()
	transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
}

// TestOwnPacksCondemned checks that a push sends its packs again if, before its root, they
// are condemned (RECHECK_HEAD) or even delisted (HEED_FLOOR).
func TestOwnPacksCondemned(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		faulty := remotetest.NewFaulty(b)
		p := transfertest.NewPusher(t, faulty)
		gc := transfertest.NewCollector(t, b)
		one := p.MakeGrown(1)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
			gc.MarkFiles(b.Names("packs/")...)
			if delisted {
				gc.ForgetMarked()
			}
		}})
		result := p.MustPush("main", one)
		if !delisted {
			gc.ForgetMarked()
		}
		if result.Packs != 4 {
			t.Errorf("delisted %v: %d packs were sent, want 4", delisted, result.Packs)
		}
		transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
	}
}

// TestFloorRaised raises the floor for other packs. The push cannot know that, and sends its
// packs again.
func TestFloorRaised(t *testing.T) {
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
	other.MustPush("other", other.MakeCommit(other.MakeTree(nil, nil)))
	gc := transfertest.NewCollector(t, b)
	one := p.MakeGrown(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		gc.DeleteBranch("other")
		gc.MarkFiles(gc.LivePacks()...)
		gc.ForgetMarked()
	}})
	if result := p.MustPush("main", one); result.Packs != 4 {
		t.Errorf("%d packs were sent, want 4", result.Packs)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
}

// TestMergedIndexAfterLostRace checks pushes that lose the race after they have made an index
// file of inline entries (IDX_REMAKE, IDX_LIVE_ONLY).
func TestMergedIndexAfterLostRace(t *testing.T) {
	start := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, start)
	id, n := p.MakeGrown(0), 0
	for ; ; id, n = p.MakeGrown(n, id), n+1 {
		p.MustPush("main", id)
		if head := transfertest.NewCollector(t, start).Head(); rootlog.InlineSize(head.Packs) > rootlog.MaxInline-300 {
			break
		}
	}

	next := p.MakeGrown(n+1, id)
	before := start.Snapshot()
	for name, test := range map[string]struct {
		first   func(t *testing.T, b *remotetest.Memory)
		indexes int // sent by the push
	}{
		"an empty root": {func(t *testing.T, b *remotetest.Memory) {
			transfertest.NewCollector(t, b).AppendRoot(func(*rootlog.State) rootlog.Change { return rootlog.Change{} })
		}, 1},
		"merged too": {func(t *testing.T, b *remotetest.Memory) {
			q := transfertest.NewPusher(t, b)
			q.MustPush("other", q.MakeGrown(99))
		}, 1},
		"condemned": {func(t *testing.T, b *remotetest.Memory) {
			gc := transfertest.NewCollector(t, b)
			q := transfertest.NewPusher(t, b)
			q.MustPush("other", q.MakeCommit(q.MakeTree(map[string]string{"f": objecttest.Noise(77, 50)}, nil)))
			gc.DeleteBranch("other")
			gc.MarkUnreached()
			gc.ForgetMarked()
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := remotetest.NewMemory()
			b.Restore(before)
			faulty := remotetest.NewFaulty(b)
			q := &transfertest.Pusher{Maker: p.Maker, Local: p.Local, Dir: t.TempDir()}
			q.Reopen(faulty)
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { test.first(t, b) }})
			q.MustPush("main", next)

			if sent := len(b.Names("index/")); sent < test.indexes {
				t.Errorf("%d index files were sent, want at least %d", sent, test.indexes)
			}
			transfertest.WantIntact(t, b, nil)
			head := transfertest.NewCollector(t, b).Head()
			if head.Refs[transfertest.MainRef].ID != next {
				t.Error("main was not moved")
			}

			for _, p := range head.Packs {
				for name := range head.Condemned {
					if name == p.Name.Path() {
						t.Errorf("%s is condemned", name)
					}
				}
			}
		})
	}
}

// TestInlineAfterLostRace checks that a pack stays inline if it is added after a push has
// made an index file of the inline entries. The index file does not name it.
func TestInlineAfterLostRace(t *testing.T) {
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
	commit := func(q *transfertest.Pusher, from, n int) object.ID {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprint("f", i)] = objecttest.Noise(from+i, 50)
		}
		return q.MakeCommit(q.MakeTree(files, nil))
	}
	one, two, stays := commit(p, 0, 250), commit(p, 1000, 250), commit(other, 2000, 1)
	p.MustPush("one", one)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { other.MustPush("stays", stays) }})
	p.MustPush("two", two)
	if head := transfertest.NewCollector(t, b).Head(); len(head.Indexes) != 1 {
		t.Fatalf("%d index files, want 1", len(head.Indexes))
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"one": one, "two": two, "stays": stays})
}

// TestOwnIndexCondemned checks that a push makes a new index file if only its index file was
// condemned.
func TestOwnIndexCondemned(t *testing.T) {
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p := transfertest.NewPusher(t, faulty)
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, 50)
	}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { transfertest.NewCollector(t, b).MarkFiles(b.Names("index/")...) }})
	one := p.MakeCommit(p.MakeTree(files, nil))
	if result := p.MustPush("main", one); result.Packs != 2 || len(b.Names("index/")) != 2 {
		t.Errorf("push: %+v, index files %q; want 2 of each", result, b.Names("index/"))
	}
	transfertest.NewCollector(t, b).ForgetMarked()
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
}

// TestMergedPackCondemned checks a push that loses two races. The first root adds inline
// packs, and the push adds them to its index file. The second root condemns one of them.
func TestMergedPackCondemned(t *testing.T) {
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := transfertest.NewPusher(t, faulty), transfertest.NewPusher(t, b)
	p.KeepSmall, other.KeepSmall = true, true
	gc := transfertest.NewCollector(t, b)
	var stays object.ID

	id := p.MakeGrown(0)
	for n := 1; rootlog.InlineSize(gc.Head().Packs) < rootlog.MaxInline-700; n++ {
		p.MustPush("main", id)
		id = p.MakeGrown(n, id)
	}

	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		files := map[string]string{}
		for i := range 10 {
			files[fmt.Sprint("f", i)] = objecttest.Noise(i, 50)
		}
		stays = other.MakeCommit(other.MakeTree(files, nil))
		other.MustPush("stays", stays)
		other.MustPush("other", other.MakeCommit(other.MakeTree(map[string]string{"f": objecttest.Noise(10, 50)}, nil)))
	}})

	faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 2, Do: func() {
		gc.DeleteBranch("other")
		reachable := gc.ReachablePacks()
		gc.MarkFiles(slices.DeleteFunc(gc.LivePacks(), func(name string) bool { return reachable[name] })...)
	}})
	p.MustPush("main", id)

	head := gc.Head()
	if len(head.Condemned) != 2 || len(head.Indexes) != 1 {
		t.Fatalf("%d condemned and %d index files, want 2 and 1", len(head.Condemned), len(head.Indexes))
	}

	p.Reopen(b)
	snap, err := p.Remote.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, info := range snap.Indexes[0].PackInfos {
		if _, condemned := head.Condemned[info.Name.Path()]; condemned {
			t.Errorf("an index file names the condemned pack %s", info.Name)
		}
	}

	transfertest.WantIntact(t, b, map[string]object.ID{"main": id, "stays": stays})
}
