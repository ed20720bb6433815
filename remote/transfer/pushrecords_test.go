package transfer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// remoteHas reports whether an object lies in a live pack.
func remoteHas(t testing.TB, b remote.Backend, key object.Key) bool {
	t.Helper()
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.indexes.close(nil)
	snap, err := r.snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, ok, err := snap.find(key)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// wantTold checks how many records a push tells and objects it sends.
func wantTold(t testing.TB, result *PushResult, records int, objects int64) {
	t.Helper()
	if result.Records != records || result.Objects != objects {
		t.Errorf("%d records were told, and %d objects sent; want %d and %d", result.Records, result.Objects, records, objects)
	}
}

// chain has a side make and push n commits on main.
func (s *side) chain(n int) []object.ID {
	s.t.Helper()
	var ids []object.ID
	for i := range n {
		ids = append(ids, s.commit("main", i, ids[max(0, i-1):]...))
	}
	s.mustPush("main")
	return ids
}

func TestExpireTold(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	ids := a.chain(3)
	tree := a.treeOf(ids[0])
	a.expire(ids[0])
	wantTold(t, a.mustPush("main"), 1, 0)
	b.ResetCounts()
	wantTold(t, a.mustPush("main"), 0, 0)
	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create); n > 0 {
		t.Errorf("a push of nothing makes %d calls that write", n)
	}
	wantWhole(t, b, nil)
	mustCollect(t, b, atOnce)
	wantWhole(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("the collector has left what has expired")
	}
	// Who never had the content does without, and others push on top of it.
	c := newSide(t, b)
	c.mustFetch()
	c.needed()
	if c.has(tree) {
		t.Error("what has expired was fetched")
	}
	c.commit("main", 7, ids[2])
	c.mustPush("main")
	wantWhole(t, b, nil)
	a.mustFetch()
	a.gc()
	a.needed()
	if a.has(tree) {
		t.Error("what has expired is still here")
	}
	// A commit with the same files as the one that has expired is sent with them,
	// also if it follows that.
	for _, parent := range []object.ID{a.refs["refs/remotes/main"], ids[0]} {
		a.make("main", func(m *maker) object.ID { return m.commit(remake(m), parent) })
		a.mustPush("main")
		wantWhole(t, b, nil)
		a.refs[mainRef] = ids[2]
		a.mustPush("main")
		mustCollect(t, b, atOnce)
	}
	// And if that is sent together with it.
	private := a.make("main", func(m *maker) object.ID { return m.commit(remake(m), ids[2]) })
	a.make("main", func(m *maker) object.ID { return m.commit(remake(m), private) })
	a.expire(private)
	a.mustPush("main")
	wantWhole(t, b, nil)
}

// remake makes the tree of the first commit of a chain.
func remake(m *maker) object.ID {
	common := m.tree(map[string]string{"a": noise(1, 200), "b": noise(2, 200)}, nil)
	return m.tree(map[string]string{"own": noise(100, 300)}, map[string]object.ID{"common": common})
}

func TestUndoTold(t *testing.T) {
	t.Parallel()
	for _, collected := range []bool{false, true} {
		b := newRemoteIn(t)
		a := newSide(t, b)
		// A commit's content is more than its tree.
		rest := noise(50, 400)
		first := a.make("main", func(m *maker) object.ID {
			m.date++
			who := object.Signature{Name: "A", Email: "a@example.org", Time: object.Time{Sec: m.date}}
			return m.put(object.KindCommit, &object.Commit{
				Tree: remake(m), Author: who, Committer: who, Message: "partial",
				SkippedCount: 1, SkippedRest: m.putData(object.KindChunk, []byte(rest)),
			})
		})
		a.commit("main", 1, first)
		a.mustPush("main")
		other := newSide(t, b)
		other.mustFetch()
		a.expire(first)
		a.mustPush("main")
		sent := int64(0)
		if collected {
			mustCollect(t, b, atOnce)
			other.mustFetch()
			other.gc()
			sent = 3 // its tree, its file, and the list of what was skipped
		}
		a.unexpire(first)
		wantTold(t, a.mustPush("main"), 1, sent)
		wantWhole(t, b, nil)
		if result := other.mustFetch(); result.Objects != sent {
			t.Errorf("fetched %d objects, want %d", result.Objects, sent)
		}
		other.needed()
		if !other.whole(first) || !remoteHas(t, b, object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(rest))}) {
			t.Error("not everything has come back")
		}
	}
}

// TestHoldExpired checks that to hold what has expired, and has gone from the
// remote, sends it again, and that it stays then, whatever becomes of refs.
func TestHoldExpired(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	ids := a.chain(3)
	a.expire(ids[1])
	a.mustPush("main")
	mustCollect(t, b, atOnce)
	tree := a.treeOf(ids[1])
	a.hold(ids[1])
	wantTold(t, a.mustPush("main"), 1, 2)
	for _, change := range []func(){
		func() { a.refs[mainRef] = ids[0]; a.mustPush("main") }, // away from it, by force
		func() { delete(a.refs, mainRef); a.mustPush("main") },
	} {
		change()
		mustCollect(t, b, atOnce)
		wantWhole(t, b, nil)
		if !remoteHas(t, b, tree) {
			t.Fatal("what is held has gone")
		}
	}
	// Who comes then gets it, and who lifts the hold has it go.
	c := newSide(t, b)
	c.mustFetch()
	if !c.whole(ids[1]) || c.has(commitKeys(ids[2])[0]) {
		t.Error("what is held was not fetched, or something else was")
	}
	c.release(ids[1])
	c.commit("other", 9)
	wantTold(t, c.mustPush("other"), 1, 3)
	mustCollect(t, b, atOnce)
	wantWhole(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("what is no longer held is still there")
	}
}

// TestHoldGrace has what a hold relies on be condemned before it is told.
func TestHoldGrace(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(2)
	a.expire(ids[0])
	a.mustPush("main")
	tree := a.treeOf(ids[0])
	collected := false
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		mustCollect(t, b, atOnce)
		collected = !remoteHas(t, b, tree)
	}})
	a.hold(ids[0])
	wantTold(t, a.mustPush("main"), 1, 2)
	if !collected {
		t.Fatal("nothing was collected meanwhile")
	}
	wantWhole(t, b, nil)
	if !remoteHas(t, b, tree) {
		t.Error("what is held is not there")
	}
}

// TestHoldEnds checks that a hold is over when somebody's collection says so, and
// not before.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	ids := a.chain(2)
	a.expire(ids[0])
	over := record.Record{Kind: record.Hold, Key: commitKeys(ids[0])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Unix(1_700_000_000, 0).UTC()}
	a.said.Switch(over)
	later := record.Record{Kind: record.Hold, Key: commitKeys(ids[1])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Now().AddDate(1, 0, 0).UTC()}
	a.said.Switch(later)
	wantTold(t, a.mustPush("main"), 3, 0)
	c := newSide(t, b)
	c.mustFetch()
	if !c.whole(ids[0]) {
		t.Error("a hold that was not ended does not hold")
	}
	mustCollect(t, b, CollectOptions{DryRun: true})
	wantWhole(t, b, nil)
	mustCollect(t, b, atOnce)
	wantWhole(t, b, nil)
	if remoteHas(t, b, a.treeOf(ids[0])) {
		t.Error("what is no longer held was not collected")
	}
	// Others learn of it, whatever their clocks say.
	c.mustFetch()
	for i, on := range []bool{false, true} {
		if r, _ := c.said.Get(record.Hold, commitKeys(ids[i])[0]); r.On != on {
			t.Errorf("hold %d: %+v", i, r)
		}
	}
	c.commit("main", 5, ids[1])
	c.mustPush("main")
	wantWhole(t, b, nil)
}

// TestPurgeMeanwhile checks that what was purged while it was being sent is not
// in any pack that counts.
func TestPurgeMeanwhile(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(1)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(105, 300)))}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		c := newSide(t, b)
		c.mustFetch()
		c.refs[mainRef] = ids[0]
		c.note(record.Purge, secret, true)
		wantTold(t, c.mustPush("main"), 1, 0)
	}})
	a.commit("main", 5, ids[0])
	a.mustPush("main")
	wantWhole(t, b, nil)
	if remoteHas(t, b, secret) {
		t.Error("what was purged is there")
	}
	c := newSide(t, b)
	c.mustFetch()
	c.needed()
}

// TestPurgeOwn checks that packs of an interrupted push are not used if they have
// what was purged since.
func TestPurgeOwn(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(1)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(105, 300)))}
	a.make("main", func(m *maker) object.ID {
		return m.commit(m.tree(map[string]string{"secret": noise(105, 300), "harmless": noise(106, 300)}, nil), ids[0])
	})
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.Before, Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := a.push(false, "main"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.note(record.Purge, secret, true)
	result := a.mustPush("main")
	if result.Records != 1 || remoteHas(t, b, secret) {
		t.Errorf("%+v, and what was purged is there: %v", result, remoteHas(t, b, secret))
	}
	wantWhole(t, b, nil)
}

// TestPurgeUndone checks that a purge can be taken back by who has the content.
func TestPurgeUndone(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	a.chain(2)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(100, 300)))}
	c := newSide(t, b)
	c.mustFetch()
	a.note(record.Purge, secret, true)
	wantTold(t, a.mustPush("main"), 1, 0)
	mustCollect(t, b, atOnce)
	c.mustFetch()
	c.gc()
	if c.has(secret) || remoteHas(t, b, secret) {
		t.Fatal("what was purged is still there")
	}
	// Who has not got it cannot tell that it is needed.
	c.note(record.Purge, secret, false)
	wantTold(t, c.mustPush(), 0, 0)
	wantWhole(t, b, nil)
	c.note(record.Purge, secret, true)
	a.note(record.Purge, secret, false)
	wantTold(t, a.mustPush("main"), 1, 1)
	wantWhole(t, b, nil)
	a.note(record.Purge, secret, true) // and taken back before anybody hears of it
	a.note(record.Purge, secret, false)
	wantTold(t, a.mustPush("main"), 0, 0)
	a.note(record.Purge, secret, true)
	wantTold(t, a.mustPush("main"), 1, 0)
	a.note(record.Purge, secret, false)
	wantTold(t, a.mustPush("main"), 1, 0)
	c.mustFetch()
	c.needed()
	if !c.has(secret) {
		t.Error("it has not come back")
	}
}

// TestExpireNamed checks that a commit does not expire on a remote while a ref
// names it that others may have made.
func TestExpireNamed(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	ids := a.chain(4)
	c := newSide(t, b)
	c.mustFetch()
	c.refs["refs/heads/topic"] = ids[0]
	c.mustPush("topic")
	tag := c.make("tagged", func(m *maker) object.ID {
		return m.put(object.KindTag, &object.Tag{Target: ids[1], Name: "v1", Tagger: object.Signature{Name: "A", Time: object.Time{Sec: 1}}, Message: "m"})
	})
	if _, err := c.remote.Push(t.Context(), c.store, PushOptions{Updates: []RefUpdate{
		{Name: "refs/tags/v1", New: object.Key{Kind: object.KindTag, ID: tag}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids[:3] {
		a.expire(id)
	}
	wantTold(t, a.mustPush("main"), 1, 0)
	mustCollect(t, b, atOnce)
	wantWhole(t, b, nil)
	for i, want := range []bool{true, true, false} {
		if remoteHas(t, b, a.treeOf(ids[i])) != want {
			t.Errorf("the content of commit %d is there: %v", i, !want)
		}
	}
	// It does when the ref goes, even in the same push.
	wantTold(t, a.mustPush("main", "topic"), 1, 0)
	mustCollect(t, b, atOnce)
	wantWhole(t, b, nil)
	// A ref of one's own may name what has expired: a copy of the repository has
	// no more than the repository.
	a.gc()
	copied := newRemoteIn(t)
	a.reopenAt(copied)
	a.refs["refs/heads/old"] = ids[0]
	a.mustPush("main", "old")
	wantWhole(t, copied, nil)
}

// reopenAt has a side go on with another remote.
func (s *side) reopenAt(b remote.Backend) {
	s.t.Helper()
	r, err := openTest(s.t, b, s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Close() })
	s.remote = r
}

// TestPrivate checks that nothing is told of commits that the remote does not
// have.
func TestPrivate(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(1)
	private := a.commit("private", 5, ids[0])
	last := a.commit("private", 6, private)
	a.hold(private)
	a.hold(last)
	a.expire(private)
	wantTold(t, a.mustPush("main"), 0, 0)
	// Nor if they lie in a pack that an interrupted push has sent.
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.Before, Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := a.push(false, "private"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.refs["refs/heads/main"] = a.commit("main", 7, ids[0])
	wantTold(t, a.mustPush("main"), 0, 3)
	wantWhole(t, b, nil)
	// They are as soon as the commits are sent.
	if result := a.mustPush("private"); result.Records != 3 {
		t.Errorf("%+v", result)
	}
	wantWhole(t, b, nil)
}

// TestFetchStuck checks that records of which neither end can do what they say
// are in nobody's way.
func TestFetchStuck(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	a := newSide(t, b)
	ids := a.chain(3)
	c := newSide(t, b)
	c.mustFetch()
	a.expire(ids[0])
	a.mustPush("main")
	mustCollect(t, b, atOnce)
	// Undone here, and then forgotten together with the commit.
	c.unexpire(ids[0])
	c.unexpire(ids[0])
	c.refs = map[string]object.ID{}
	c.gc()
	c.mustFetch()
	c.needed()
	if r, _ := c.said.Get(record.Expire, commitKeys(ids[0])[0]); !r.On {
		t.Errorf("%+v", r)
	}
	// Undone there, and then collected together with the commit.
	a.unexpire(ids[0])
	wantTold(t, a.mustPush("main"), 1, 2)
	a.refs[mainRef] = a.commit("main", 9)
	a.mustPush("main")
	mustCollect(t, b, atOnce)
	c.refs["refs/heads/kept"] = ids[2]
	for range 2 {
		c.mustFetch()
		c.needed()
		if r, _ := c.said.Get(record.Expire, commitKeys(ids[0])[0]); !r.On {
			t.Errorf("%+v", r)
		}
	}
}

// TestClaimPurge checks that a writer that knows of a purge, or of its undoing,
// does not plan for ever.
func TestClaimPurge(t *testing.T) {
	key := object.Key{Kind: object.KindChunk, ID: object.ID{1}}
	on := record.Record{Kind: record.Purge, Key: key, Generation: 1, On: true}
	off := record.Record{Kind: record.Purge, Key: key, Generation: 2}
	again := record.Record{Kind: record.Purge, Key: key, Generation: 3, On: true}
	set := func(list ...record.Record) *record.Set {
		s := &record.Set{}
		for _, r := range list {
			s.Merge(r)
		}
		return s
	}
	for _, c := range []struct {
		known, head *record.Set
		want        error
	}{
		{nil, nil, nil},
		{nil, set(on), rootlog.ErrReplan},
		{set(on), set(on), nil},
		{set(off), set(on), nil},
		{set(on), set(off), nil},
		{set(off), set(again), rootlog.ErrReplan},
	} {
		claim := rootlog.Claim{Records: c.known}
		if err := claim.Check(&rootlog.State{Records: c.head}, nil); !errors.Is(err, c.want) {
			t.Errorf("known %v, there %v: %v", c.known, c.head, err)
		}
	}
}
