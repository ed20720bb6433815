package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// meanwhile has f called when a push is about to send its first pack, once.
func meanwhile(faulty *remotetest.Faulty, f func()) {
	faulty.Fail(remotetest.Fault{Op: remotetest.Put, Name: "packs/", Do: f})
}

// TestBaseCollected has the branch deleted that a push builds on, and all of
// its packs condemned, and deleted, after the push was planned (RELY_ON_ALL_LIVE).
func TestBaseCollected(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := newRemoteIn(t)
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
		wantWhole(t, b, map[string]object.ID{"main": two})
	}
}

// TestPartOfBaseCollected has only packs collected that hold nothing of what
// the push relies on: it plans again, and sends nothing again.
func TestPartOfBaseCollected(t *testing.T) {
	b := newRemoteIn(t)
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
		t.Errorf("%d packs were sent", result.Packs)
	}
	gc.delist()
	wantWhole(t, b, map[string]object.ID{"main": two})
}

// TestOwnPacksCondemned has what a push has sent condemned as garbage before its
// root (RECHECK_HEAD), and delisted as well (HEED_FLOOR).
func TestOwnPacksCondemned(t *testing.T) {
	for _, delisted := range []bool{false, true} {
		b := newRemoteIn(t)
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
			t.Errorf("delisted %v: %d packs were sent", delisted, result.Packs)
		}
		wantWhole(t, b, map[string]object.ID{"main": one})
	}
}

// TestFloorRaised has the floor raised for the sake of something else: the push
// cannot know that it was not its packs.
func TestFloorRaised(t *testing.T) {
	b := newRemoteIn(t)
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
		t.Errorf("%d packs were sent", result.Packs)
	}
	wantWhole(t, b, map[string]object.ID{"main": one})
}

// TestMergedIndexAfterLostRace has somebody else come first when a push has made
// an index file of what lay in the root (IDX_REMAKE, IDX_LIVE_ONLY).
func TestMergedIndexAfterLostRace(t *testing.T) {
	start := newRemoteIn(t)
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
		"no file": {func(t *testing.T, b *remotetest.Memory) {
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
				t.Errorf("%d index files were sent", sent)
			}
			wantWhole(t, b, nil)
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

// TestInlineAfterLostRace has somebody else leave a pack in the root when a push
// has made an index file of what lay there: the pack stays in the root, since the
// index file does not name it.
func TestInlineAfterLostRace(t *testing.T) {
	b := newRemoteIn(t)
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
		t.Fatalf("%d index files", len(head.Indexes))
	}
	wantWhole(t, b, map[string]object.ID{"one": one, "two": two, "stays": stays})
}

// TestOwnIndexCondemned has the index file condemned that a push has sent, and
// nothing else.
func TestOwnIndexCondemned(t *testing.T) {
	b := newRemoteIn(t)
	faulty := remotetest.NewFaulty(b)
	p := newPusher(t, faulty)
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprint("f", i)] = noise(i, 50)
	}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { newCollector(t, b).condemn(b.Names("index/")...) }})
	one := p.commit(p.tree(files, nil))
	if result := p.mustPush("main", one); result.Packs != 2 || len(b.Names("index/")) != 2 {
		t.Errorf("%+v, %q", result, b.Names("index/"))
	}
	newCollector(t, b).delist()
	wantWhole(t, b, map[string]object.ID{"main": one})
}

// TestMergedPackCondemned loses two races: after the first, a push takes along
// what somebody else left in the root, and with the second that is condemned.
func TestMergedPackCondemned(t *testing.T) {
	b := newRemoteIn(t)
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
		needed := gc.needed()
		gc.condemn(slices.DeleteFunc(gc.live(), func(name string) bool { return needed[name] })...)
	}})
	p.mustPush("main", id)
	head := gc.head()
	if len(head.Condemned) != 2 || len(head.Indexes) != 1 {
		t.Fatalf("%d condemned, %d index files", len(head.Condemned), len(head.Indexes))
	}
	p.reopen(b)
	snap, err := p.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range snap.indexes[0].packs {
		if _, condemned := head.Condemned[info.Name.Path()]; condemned {
			t.Errorf("an index file names %s, which is condemned", info.Name)
		}
	}
	wantWhole(t, b, map[string]object.ID{"main": id, "stays": stays})
}
