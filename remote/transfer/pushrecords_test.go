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

// remoteHas reports whether an object is in a live pack.
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

// wantSent checks how many records and objects a push has sent.
func wantSent(t testing.TB, result *PushResult, records int, objects int64) {
	t.Helper()
	if result.Records != records || result.Objects != objects {
		t.Errorf("sent %d records and %d objects, want %d and %d", result.Records, result.Objects, records, objects)
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

func TestPushExpire(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newSide(t, b)
	ids := a.chain(3)
	tree := a.treeOf(ids[0])
	a.expire(ids[0])
	wantSent(t, a.mustPush("main"), 1, 0)
	b.ResetCounts()
	wantSent(t, a.mustPush("main"), 0, 0)

	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create); n > 0 {
		t.Errorf("a push without changes made %d calls that write", n)
	}
	wantIntact(t, b, nil)
	mustCollect(t, b, atOnce)
	wantIntact(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("the collection kept expired content")
	}

	// A clone fetches without the content, and can push on top of it.
	c := newSide(t, b)
	c.mustFetch()
	c.mustReach()
	if c.has(tree) {
		t.Error("expired content was fetched")
	}

	c.commit("main", 7, ids[2])
	c.mustPush("main")
	wantIntact(t, b, nil)
	a.mustFetch()
	a.gc()
	a.mustReach()
	if a.has(tree) {
		t.Error("gc kept expired content")
	}

	// A commit with the files of the expired commit is sent with them, even if it
	// follows that commit.
	for _, parent := range []object.ID{a.refs["refs/remotes/main"], ids[0]} {
		a.make("main", func(m *maker) object.ID { return m.commit(remake(m), parent) })
		a.mustPush("main")
		wantIntact(t, b, nil)
		a.refs[mainRef] = ids[2]
		a.mustPush("main")
		mustCollect(t, b, atOnce)
	}

	// The same holds if both are sent together.
	private := a.make("main", func(m *maker) object.ID { return m.commit(remake(m), ids[2]) })
	a.make("main", func(m *maker) object.ID { return m.commit(remake(m), private) })
	a.expire(private)
	a.mustPush("main")
	wantIntact(t, b, nil)
}

// remake makes the tree of the first commit of a chain.
func remake(m *maker) object.ID {
	common := m.tree(map[string]string{"a": noise(1, 200), "b": noise(2, 200)}, nil)
	return m.tree(map[string]string{"own": noise(100, 300)}, map[string]object.ID{"common": common})
}

func TestPushUndo(t *testing.T) {
	t.Parallel()
	for _, collected := range []bool{false, true} {
		b := newRemote(t)
		a := newSide(t, b)

		// The content of a commit includes its list of skipped files.
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
			sent = 3 // the tree, the file, and the list of skipped files
		}
		a.unexpire(first)
		wantSent(t, a.mustPush("main"), 1, sent)
		wantIntact(t, b, nil)

		if result := other.mustFetch(); result.Objects != sent {
			t.Errorf("fetched %d objects, want %d", result.Objects, sent)
		}
		other.mustReach()
		if !other.hasContent(first) || !remoteHas(t, b, object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(rest))}) {
			t.Error("content is missing after the undo")
		}
	}
}

// TestHoldExpired checks that a hold of an expired commit sends its collected content again.
// The content then stays, whatever happens to refs.
func TestHoldExpired(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newSide(t, b)
	ids := a.chain(3)
	a.expire(ids[1])
	a.mustPush("main")
	mustCollect(t, b, atOnce)
	tree := a.treeOf(ids[1])
	a.hold(ids[1])
	wantSent(t, a.mustPush("main"), 1, 2)

	for _, change := range []func(){
		func() { a.refs[mainRef] = ids[0]; a.mustPush("main") }, // forced away from it
		func() { delete(a.refs, mainRef); a.mustPush("main") },
	} {
		change()
		mustCollect(t, b, atOnce)
		wantIntact(t, b, nil)
		if !remoteHas(t, b, tree) {
			t.Fatal("held content was collected")
		}
	}

	// A new clone gets the content. After the clone ends the hold, the content goes.
	c := newSide(t, b)
	c.mustFetch()
	if !c.hasContent(ids[1]) || c.has(commitKeys(ids[2])[0]) {
		t.Error("held content was not fetched, or an unreachable commit was")
	}

	c.release(ids[1])
	c.commit("other", 9)
	wantSent(t, c.mustPush("other"), 1, 3)
	mustCollect(t, b, atOnce)
	wantIntact(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("content without a hold was kept")
	}
}

// TestHoldGrace checks that the push of a hold sends the content again if it is collected
// just before the root.
func TestHoldGrace(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
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
	wantSent(t, a.mustPush("main"), 1, 2)
	if !collected {
		t.Fatal("the content was not collected during the push")
	}
	wantIntact(t, b, nil)
	if !remoteHas(t, b, tree) {
		t.Error("held content is missing")
	}
}

// TestHoldEnds checks that a hold that is over ends with a collection, and not before.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newSide(t, b)
	ids := a.chain(2)
	a.expire(ids[0])
	over := record.Record{Kind: record.Hold, Key: commitKeys(ids[0])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Unix(1_700_000_000, 0).UTC()}
	a.records.Switch(over)
	later := record.Record{Kind: record.Hold, Key: commitKeys(ids[1])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Now().AddDate(1, 0, 0).UTC()}
	a.records.Switch(later)
	wantSent(t, a.mustPush("main"), 3, 0)
	c := newSide(t, b)
	c.mustFetch()
	if !c.hasContent(ids[0]) {
		t.Error("a hold had no effect before its end")
	}

	mustCollect(t, b, CollectOptions{DryRun: true})
	wantIntact(t, b, nil)
	if !remoteHas(t, b, a.treeOf(ids[0])) {
		t.Error("a dry run removed content")
	}

	mustCollect(t, b, atOnce)
	wantIntact(t, b, nil)
	if remoteHas(t, b, a.treeOf(ids[0])) {
		t.Error("content without a hold was kept")
	}

	// Other repositories receive the end of the hold, whatever their clocks are.
	c.mustFetch()
	for i, on := range []bool{false, true} {
		if r, _ := c.records.Get(record.Hold, commitKeys(ids[i])[0]); r.On != on {
			t.Errorf("hold %d: %+v, want on %v", i, r, on)
		}
	}

	c.commit("main", 5, ids[1])
	c.mustPush("main")
	wantIntact(t, b, nil)
}

// TestPurgeMeanwhile purges a chunk while a push sends it. No live pack has the chunk
// afterwards.
func TestPurgeMeanwhile(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(1)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(105, 300)))}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		c := newSide(t, b)
		c.mustFetch()
		c.refs[mainRef] = ids[0]
		c.note(record.Purge, secret, true)
		wantSent(t, c.mustPush("main"), 1, 0)
	}})
	a.commit("main", 5, ids[0])
	a.mustPush("main")
	wantIntact(t, b, nil)
	if remoteHas(t, b, secret) {
		t.Error("a live pack has the purged chunk")
	}
	c := newSide(t, b)
	c.mustFetch()
	c.mustReach()
}

// TestPurgeOwn checks that a push does not use packs of an interrupted push with objects
// purged since.
func TestPurgeOwn(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
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
		t.Errorf("push: %+v, want 1 record; the purged chunk is live: %v", result, remoteHas(t, b, secret))
	}
	wantIntact(t, b, nil)
}

// TestPurgeUndone checks that a repository that has the content can undo a purge.
func TestPurgeUndone(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newSide(t, b)
	a.chain(2)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(noise(100, 300)))}
	c := newSide(t, b)
	c.mustFetch()
	a.note(record.Purge, secret, true)
	wantSent(t, a.mustPush("main"), 1, 0)
	mustCollect(t, b, atOnce)
	c.mustFetch()
	c.gc()
	if c.has(secret) || remoteHas(t, b, secret) {
		t.Fatal("the purged chunk was kept")
	}

	// A repository without the chunk cannot push the undo.
	c.note(record.Purge, secret, false)
	wantSent(t, c.mustPush(), 0, 0)
	wantIntact(t, b, nil)
	c.note(record.Purge, secret, true)
	a.note(record.Purge, secret, false)
	wantSent(t, a.mustPush("main"), 1, 1)
	wantIntact(t, b, nil)
	a.note(record.Purge, secret, true) // undone before a push
	a.note(record.Purge, secret, false)
	wantSent(t, a.mustPush("main"), 0, 0)
	a.note(record.Purge, secret, true)
	wantSent(t, a.mustPush("main"), 1, 0)
	a.note(record.Purge, secret, false)
	wantSent(t, a.mustPush("main"), 1, 0)
	c.mustFetch()
	c.mustReach()
	if !c.has(secret) {
		t.Error("the chunk is missing after the undo")
	}
}

// TestExpireNamed checks that a commit does not expire on a remote while a ref there names
// it, unless the push itself makes or moves this ref.
func TestExpireNamed(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
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
	wantSent(t, a.mustPush("main"), 1, 0)
	mustCollect(t, b, atOnce)
	wantIntact(t, b, nil)

	for i, want := range []bool{true, true, false} {
		if remoteHas(t, b, a.treeOf(ids[i])) != want {
			t.Errorf("content of commit %d on the remote: %v, want %v", i, !want, want)
		}
	}

	// It expires when the ref is deleted, even in the same push.
	wantSent(t, a.mustPush("main", "topic"), 1, 0)
	mustCollect(t, b, atOnce)
	wantIntact(t, b, nil)

	// A ref that the push makes may name an expired commit. Otherwise this
	// repository could not be copied.
	a.gc()
	copied := newRemote(t)
	a.reopenAt(copied)
	a.refs["refs/heads/old"] = ids[0]
	a.mustPush("main", "old")
	wantIntact(t, copied, nil)
}

// reopenAt switches a side to another remote.
func (s *side) reopenAt(b remote.Backend) {
	s.t.Helper()
	r, err := openTest(s.t, b, s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.Close() })
	s.remote = r
}

// TestPrivate checks that a push sends no records of commits that the remote does not have.
func TestPrivate(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := newSide(t, faulty)
	ids := a.chain(1)
	private := a.commit("private", 5, ids[0])
	last := a.commit("private", 6, private)
	a.hold(private)
	a.hold(last)
	a.expire(private)
	wantSent(t, a.mustPush("main"), 0, 0)
	// The same holds if an interrupted push has sent the commits.
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.Before, Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := a.push(false, "private"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.refs["refs/heads/main"] = a.commit("main", 7, ids[0])
	wantSent(t, a.mustPush("main"), 0, 3)
	wantIntact(t, b, nil)
	// The records are sent together with the commits.
	if result := a.mustPush("private"); result.Records != 3 {
		t.Errorf("push: %+v, want 3 records", result)
	}
	wantIntact(t, b, nil)
}

// TestFetchStuck checks that a record does not stop a fetch if neither end has the content
// that the record requires.
func TestFetchStuck(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newSide(t, b)
	ids := a.chain(3)
	c := newSide(t, b)
	c.mustFetch()
	a.expire(ids[0])
	a.mustPush("main")
	mustCollect(t, b, atOnce)

	// The clone undoes the expiration, and loses the commit in a gc.
	c.unexpire(ids[0])
	c.unexpire(ids[0])
	c.refs = map[string]object.ID{}
	c.gc()
	c.mustFetch()
	c.mustReach()

	if r, _ := c.records.Get(record.Expire, commitKeys(ids[0])[0]); !r.On {
		t.Errorf("expiration: %+v, want on", r)
	}

	// The remote gets an undo of the expiration, and loses the commit in a collection.
	a.unexpire(ids[0])
	wantSent(t, a.mustPush("main"), 1, 2)
	a.refs[mainRef] = a.commit("main", 9)
	a.mustPush("main")
	mustCollect(t, b, atOnce)
	c.refs["refs/heads/kept"] = ids[2]

	for range 2 {
		c.mustFetch()
		c.mustReach()
		if r, _ := c.records.Get(record.Expire, commitKeys(ids[0])[0]); !r.On {
			t.Errorf("expiration: %+v, want on", r)
		}
	}
}

// TestClaimPurge checks that a writer that knows of a purge, or of its undoing, does not plan
// forever.
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
			t.Errorf("known records %v, at the head %v: %v, want %v", c.known, c.head, err, c.want)
		}
	}
}
