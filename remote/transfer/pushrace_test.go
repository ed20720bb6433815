package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// meanwhile calls f once, just before a push sends its first pack.
func meanwhile(faulty *remotetest.Faulty, f func()) {
	faulty.Fail(remotetest.Fault{Op: remotetest.Put, Name: "packs/", Do: f})
}

// TestBaseCollected checks that a push plans again if, after its plan, the branch that it
// builds on is deleted and all packs are condemned (RELY_ON_ALL_LIVE).
func TestBaseCollected(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := newRemote(t)
		faulty := remotetest.NewFaulty(b)
		p := newPusher(t, faulty)
		one := p.grow(1)
		p.mustPush("base", one)
		gc := newCollector(t, b)
		two := p.grow(2, one)
		meanwhile(faulty, func() {
			gc.delete("base")
			gc.condemn(gc.live()...)
			if delisted {
				gc.delist()
			}
		})
		result := p.mustPush("main", two)
		if !delisted {
			gc.delist()
		}
		if all := closure(t, p.local, commitKeys(two)...); result.Objects < int64(len(all)) {
			t.Errorf("delisted %v: %d of %d objects were sent", delisted, result.Objects, len(all))
		}
		wantIntact(t, b, map[string]object.ID{"main": two})
	}
}

// TestPartOfBaseCollected condemns only packs whose objects the push does not rely on. The
// push plans again, but sends no pack again.
func TestPartOfBaseCollected(t *testing.T) {
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := newPusher(t, faulty), newPusher(t, b)
	one := p.grow(1)
	p.mustPush("main", one)
	gc := newCollector(t, b)
	before := gc.live()
	other.mustPush("other", other.commit(other.tree(map[string]string{"other": noise(1, 100)}, nil)))
	theirs := slices.DeleteFunc(gc.live(), func(name string) bool { return slices.Contains(before, name) })
	two := p.grow(2, one)
	meanwhile(faulty, func() {
		gc.delete("other")
		gc.condemn(theirs...)
	})
	if result := p.mustPush("main", two); result.Packs != 2 {
		t.Errorf("%d packs were sent, want 2", result.Packs)
	}
	gc.delist()
	wantIntact(t, b, map[string]object.ID{"main": two})
}

// TestOwnPacksCondemned checks that a push sends its packs again if, before its root, they
// are condemned (RECHECK_HEAD) or even delisted (HEED_FLOOR).
func TestOwnPacksCondemned(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := newRemote(t)
		faulty := remotetest.NewFaulty(b)
		p := newPusher(t, faulty)
		gc := newCollector(t, b)
		one := p.grow(1)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
			gc.condemn(b.Names("packs/")...)
			if delisted {
				gc.delist()
			}
		}})
		result := p.mustPush("main", one)
		if !delisted {
			gc.delist()
		}
		if result.Packs != 4 {
			t.Errorf("delisted %v: %d packs were sent, want 4", delisted, result.Packs)
		}
		wantIntact(t, b, map[string]object.ID{"main": one})
	}
}

// TestFloorRaised raises the floor for other packs. The push cannot know that, and sends its
// packs again.
func TestFloorRaised(t *testing.T) {
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := newPusher(t, faulty), newPusher(t, b)
	other.mustPush("other", other.commit(other.tree(nil, nil)))
	gc := newCollector(t, b)
	one := p.grow(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		gc.delete("other")
		gc.condemn(gc.live()...)
		gc.delist()
	}})
	if result := p.mustPush("main", one); result.Packs != 4 {
		t.Errorf("%d packs were sent, want 4", result.Packs)
	}
	wantIntact(t, b, map[string]object.ID{"main": one})
}

// TestMergedIndexAfterLostRace checks pushes that lose the race after they have made an index
// file of inline entries (IDX_REMAKE, IDX_LIVE_ONLY).
func TestMergedIndexAfterLostRace(t *testing.T) {
	start := newRemote(t)
	p := newPusher(t, start)
	id, n := p.grow(0), 0
	for ; ; id, n = p.grow(n, id), n+1 {
		p.mustPush("main", id)
		if head := newCollector(t, start).head(); rootlog.InlineSize(head.Packs) > rootlog.MaxInline-300 {
			break
		}
	}

	next := p.grow(n+1, id)
	before := start.Snapshot()
	for name, test := range map[string]struct {
		first   func(t *testing.T, b *remotetest.Memory)
		indexes int // sent by the push
	}{
		"an empty root": {func(t *testing.T, b *remotetest.Memory) {
			newCollector(t, b).append(func(*rootlog.State) rootlog.Change { return rootlog.Change{} })
		}, 1},
		"merged too": {func(t *testing.T, b *remotetest.Memory) {
			q := newPusher(t, b)
			q.mustPush("other", q.grow(99))
		}, 1},
		"condemned": {func(t *testing.T, b *remotetest.Memory) {
			gc := newCollector(t, b)
			q := newPusher(t, b)
			q.mustPush("other", q.commit(q.tree(map[string]string{"f": noise(77, 50)}, nil)))
			gc.delete("other")
			gc.collect()
			gc.delist()
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := remotetest.NewMemory()
			b.Restore(before)
			faulty := remotetest.NewFaulty(b)
			q := &pusher{maker: p.maker, local: p.local, dir: t.TempDir()}
			q.reopen(faulty)
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { test.first(t, b) }})
			q.mustPush("main", next)

			if sent := len(b.Names("index/")); sent < test.indexes {
				t.Errorf("%d index files were sent, want at least %d", sent, test.indexes)
			}
			wantIntact(t, b, nil)
			head := newCollector(t, b).head()
			if head.Refs[mainRef].ID != next {
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
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := newPusher(t, faulty), newPusher(t, b)
	commit := func(q *pusher, from, n int) object.ID {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprint("f", i)] = noise(from+i, 50)
		}
		return q.commit(q.tree(files, nil))
	}
	one, two, stays := commit(p, 0, 250), commit(p, 1000, 250), commit(other, 2000, 1)
	p.mustPush("one", one)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { other.mustPush("stays", stays) }})
	p.mustPush("two", two)
	if head := newCollector(t, b).head(); len(head.Indexes) != 1 {
		t.Fatalf("%d index files, want 1", len(head.Indexes))
	}
	wantIntact(t, b, map[string]object.ID{"one": one, "two": two, "stays": stays})
}

// TestOwnIndexCondemned checks that a push makes a new index file if only its index file was
// condemned.
func TestOwnIndexCondemned(t *testing.T) {
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p := newPusher(t, faulty)
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprint("f", i)] = noise(i, 50)
	}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { newCollector(t, b).condemn(b.Names("index/")...) }})
	one := p.commit(p.tree(files, nil))
	if result := p.mustPush("main", one); result.Packs != 2 || len(b.Names("index/")) != 2 {
		t.Errorf("push: %+v, index files %q; want 2 of each", result, b.Names("index/"))
	}
	newCollector(t, b).delist()
	wantIntact(t, b, map[string]object.ID{"main": one})
}

// TestMergedPackCondemned checks a push that loses two races. The first root adds inline
// packs, and the push adds them to its index file. The second root condemns one of them.
func TestMergedPackCondemned(t *testing.T) {
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p, other := newPusher(t, faulty), newPusher(t, b)
	p.keepSmall, other.keepSmall = true, true
	gc := newCollector(t, b)
	var stays object.ID

	id := p.grow(0)
	for n := 1; rootlog.InlineSize(gc.head().Packs) < rootlog.MaxInline-700; n++ {
		p.mustPush("main", id)
		id = p.grow(n, id)
	}

	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() {
		files := map[string]string{}
		for i := range 10 {
			files[fmt.Sprint("f", i)] = noise(i, 50)
		}
		stays = other.commit(other.tree(files, nil))
		other.mustPush("stays", stays)
		other.mustPush("other", other.commit(other.tree(map[string]string{"f": noise(10, 50)}, nil)))
	}})

	faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 2, Do: func() {
		gc.delete("other")
		reachable := gc.reachablePacks()
		gc.condemn(slices.DeleteFunc(gc.live(), func(name string) bool { return reachable[name] })...)
	}})
	p.mustPush("main", id)

	head := gc.head()
	if len(head.Condemned) != 2 || len(head.Indexes) != 1 {
		t.Fatalf("%d condemned and %d index files, want 2 and 1", len(head.Condemned), len(head.Indexes))
	}

	p.reopen(b)
	snap, err := p.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	for _, info := range snap.indexes[0].packs {
		if _, condemned := head.Condemned[info.Name.Path()]; condemned {
			t.Errorf("an index file names the condemned pack %s", info.Name)
		}
	}

	wantIntact(t, b, map[string]object.ID{"main": id, "stays": stays})
}
