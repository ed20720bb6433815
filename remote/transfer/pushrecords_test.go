package transfer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// remoteHas reports whether an object is in a live pack.
func remoteHas(t testing.TB, b remote.Backend, key object.Key) bool {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	snap, err := r.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, ok, err := snap.Find(key)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// wantSent checks how many records and objects a push has sent.
func wantSent(t testing.TB, result *transfer.PushResult, records int, objects int64) {
	t.Helper()
	if result.Records != records || result.Objects != objects {
		t.Errorf("sent %d records and %d objects, want %d and %d", result.Records, result.Objects, records, objects)
	}
}

func TestPushExpire(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	ids := a.MakeChain(3)
	tree := a.TreeOf(ids[0])
	a.Expire(ids[0])
	wantSent(t, a.MustPush("main"), 1, 0)
	b.ResetCounts()
	wantSent(t, a.MustPush("main"), 0, 0)

	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create); n > 0 {
		t.Errorf("a push without changes made %d calls that write", n)
	}
	transfertest.WantIntact(t, b, nil)
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	transfertest.WantIntact(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("the collection kept expired content")
	}

	// A clone fetches without the content, and can push on top of it.
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	c.MustReach()
	if c.Has(tree) {
		t.Error("expired content was fetched")
	}

	c.CommitFile("main", 7, ids[2])
	c.MustPush("main")
	transfertest.WantIntact(t, b, nil)
	a.MustFetchAll()
	a.CollectLocal()
	a.MustReach()
	if a.Has(tree) {
		t.Error("gc kept expired content")
	}

	// A commit with the files of the expired commit is sent with them, even if it
	// follows that commit.
	for _, parent := range []object.ID{a.Refs["refs/remotes/main"], ids[0]} {
		a.MakeCommitOn("main", func(m *objecttest.Maker) object.ID { return m.MakeCommit(remake(m), parent) })
		a.MustPush("main")
		transfertest.WantIntact(t, b, nil)
		a.Refs[transfertest.MainRef] = ids[2]
		a.MustPush("main")
		transfertest.MustCollect(t, b, transfertest.AtOnce)
	}

	// The same holds if both are sent together.
	private := a.MakeCommitOn("main", func(m *objecttest.Maker) object.ID { return m.MakeCommit(remake(m), ids[2]) })
	a.MakeCommitOn("main", func(m *objecttest.Maker) object.ID { return m.MakeCommit(remake(m), private) })
	a.Expire(private)
	a.MustPush("main")
	transfertest.WantIntact(t, b, nil)
}

// remake makes the tree of the first commit of a chain.
func remake(m *objecttest.Maker) object.ID {
	common := m.MakeTree(map[string]string{"a": objecttest.Noise(1, 200), "b": objecttest.Noise(2, 200)}, nil)
	return m.MakeTree(map[string]string{"own": objecttest.Noise(100, 300)}, map[string]object.ID{"common": common})
}

func TestPushUndo(t *testing.T) {
	t.Parallel()
	for _, collected := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		a := transfertest.NewSide(t, b)

		// The content of a commit includes its list of skipped files.
		rest := objecttest.Noise(50, 400)
		first := a.MakeCommitOn("main", func(m *objecttest.Maker) object.ID {
			m.Date++
			who := object.Stamp{Name: "A", Email: "a@example.org", Time: object.Time{Sec: m.Date}}
			return m.PutNode(object.KindCommit, &object.Commit{
				Tree: remake(m), Author: who, Committer: who, Message: "partial",
				SkippedCount: 1, SkippedRest: m.PutData(object.KindChunk, []byte(rest)),
			})
		})
		a.CommitFile("main", 1, first)
		a.MustPush("main")
		other := transfertest.NewSide(t, b)
		other.MustFetchAll()
		a.Expire(first)
		a.MustPush("main")
		sent := int64(0)
		if collected {
			transfertest.MustCollect(t, b, transfertest.AtOnce)
			other.MustFetchAll()
			other.CollectLocal()
			sent = 3 // the tree, the file, and the list of skipped files
		}
		a.Unexpire(first)
		wantSent(t, a.MustPush("main"), 1, sent)
		transfertest.WantIntact(t, b, nil)

		if result := other.MustFetchAll(); result.Objects != sent {
			t.Errorf("fetched %d objects, want %d", result.Objects, sent)
		}
		other.MustReach()
		if !other.HasContent(first) || !remoteHas(t, b, object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(rest))}) {
			t.Error("content is missing after the undo")
		}
	}
}

// TestHoldExpired checks that a hold of an expired commit sends its collected content again.
// The content then stays, whatever happens to refs.
func TestHoldExpired(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	ids := a.MakeChain(3)
	a.Expire(ids[1])
	a.MustPush("main")
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	tree := a.TreeOf(ids[1])
	a.Hold(ids[1])
	wantSent(t, a.MustPush("main"), 1, 2)

	for _, change := range []func(){
		func() { a.Refs[transfertest.MainRef] = ids[0]; a.MustPush("main") }, // forced away from it
		func() { delete(a.Refs, transfertest.MainRef); a.MustPush("main") },
	} {
		change()
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		transfertest.WantIntact(t, b, nil)
		if !remoteHas(t, b, tree) {
			t.Fatal("held content was collected")
		}
	}

	// A new clone gets the content. After the clone ends the hold, the content goes.
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	if !c.HasContent(ids[1]) || c.Has(objecttest.CommitKeys(ids[2])[0]) {
		t.Error("held content was not fetched, or an unreachable commit was")
	}

	c.Release(ids[1])
	c.CommitFile("other", 9)
	wantSent(t, c.MustPush("other"), 1, 3)
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	transfertest.WantIntact(t, b, nil)
	if remoteHas(t, b, tree) {
		t.Error("content without a hold was kept")
	}
}

// TestHoldGrace checks that the push of a hold sends the content again if it is collected
// just before the root.
func TestHoldGrace(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := transfertest.NewSide(t, faulty)
	ids := a.MakeChain(2)
	a.Expire(ids[0])
	a.MustPush("main")
	tree := a.TreeOf(ids[0])
	collected := false
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		collected = !remoteHas(t, b, tree)
	}})
	a.Hold(ids[0])
	wantSent(t, a.MustPush("main"), 1, 2)
	if !collected {
		t.Fatal("the content was not collected during the push")
	}
	transfertest.WantIntact(t, b, nil)
	if !remoteHas(t, b, tree) {
		t.Error("held content is missing")
	}
}

// TestHoldEnds checks that a hold that is over ends with a collection, and not before.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	ids := a.MakeChain(2)
	a.Expire(ids[0])
	over := record.Record{Kind: record.Hold, Key: objecttest.CommitKeys(ids[0])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Unix(1_700_000_000, 0).UTC()}
	a.Records.Switch(over)
	later := record.Record{Kind: record.Hold, Key: objecttest.CommitKeys(ids[1])[0], On: true, Time: time.Unix(1, 0).UTC(), Until: time.Now().AddDate(1, 0, 0).UTC()}
	a.Records.Switch(later)
	wantSent(t, a.MustPush("main"), 3, 0)
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	if !c.HasContent(ids[0]) {
		t.Error("a hold had no effect before its end")
	}

	transfertest.MustCollect(t, b, collect.Options{DryRun: true})
	transfertest.WantIntact(t, b, nil)
	if !remoteHas(t, b, a.TreeOf(ids[0])) {
		t.Error("a dry run removed content")
	}

	transfertest.MustCollect(t, b, transfertest.AtOnce)
	transfertest.WantIntact(t, b, nil)
	if remoteHas(t, b, a.TreeOf(ids[0])) {
		t.Error("content without a hold was kept")
	}

	// Other repositories receive the end of the hold, whatever their clocks are.
	c.MustFetchAll()
	for i, on := range []bool{false, true} {
		if r, _ := c.Records.Get(record.Hold, objecttest.CommitKeys(ids[i])[0]); r.On != on {
			t.Errorf("hold %d: %+v, want on %v", i, r, on)
		}
	}

	c.CommitFile("main", 5, ids[1])
	c.MustPush("main")
	transfertest.WantIntact(t, b, nil)
}

// TestPurgeMeanwhile purges a chunk while a push sends it. No live pack has the chunk
// afterwards.
func TestPurgeMeanwhile(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := transfertest.NewSide(t, faulty)
	ids := a.MakeChain(1)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(objecttest.Noise(105, 300)))}
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Do: func() {
		c := transfertest.NewSide(t, b)
		c.MustFetchAll()
		c.Refs[transfertest.MainRef] = ids[0]
		c.SwitchRecord(record.Purge, secret, true)
		wantSent(t, c.MustPush("main"), 1, 0)
	}})
	a.CommitFile("main", 5, ids[0])
	a.MustPush("main")
	transfertest.WantIntact(t, b, nil)
	if remoteHas(t, b, secret) {
		t.Error("a live pack has the purged chunk")
	}
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	c.MustReach()
}

// TestPurgeOwn checks that a push does not use packs of an interrupted push with objects
// purged since.
func TestPurgeOwn(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := transfertest.NewSide(t, faulty)
	ids := a.MakeChain(1)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(objecttest.Noise(105, 300)))}
	a.MakeCommitOn("main", func(m *objecttest.Maker) object.ID {
		return m.MakeCommit(m.MakeTree(map[string]string{"secret": objecttest.Noise(105, 300), "harmless": objecttest.Noise(106, 300)}, nil), ids[0])
	})
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.Before, Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := a.PushBranches(false, "main"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.SwitchRecord(record.Purge, secret, true)
	result := a.MustPush("main")
	if result.Records != 1 || remoteHas(t, b, secret) {
		t.Errorf("push: %+v, want 1 record; the purged chunk is live: %v", result, remoteHas(t, b, secret))
	}
	transfertest.WantIntact(t, b, nil)
}

// TestPurgeUndone checks that a repository that has the content can undo a purge.
func TestPurgeUndone(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	a.MakeChain(2)
	secret := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(objecttest.Noise(100, 300)))}
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	a.SwitchRecord(record.Purge, secret, true)
	wantSent(t, a.MustPush("main"), 1, 0)
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	c.MustFetchAll()
	c.CollectLocal()
	if c.Has(secret) || remoteHas(t, b, secret) {
		t.Fatal("the purged chunk was kept")
	}

	// A repository without the chunk cannot push the undo.
	c.SwitchRecord(record.Purge, secret, false)
	wantSent(t, c.MustPush(), 0, 0)
	transfertest.WantIntact(t, b, nil)
	c.SwitchRecord(record.Purge, secret, true)
	a.SwitchRecord(record.Purge, secret, false)
	wantSent(t, a.MustPush("main"), 1, 1)
	transfertest.WantIntact(t, b, nil)
	a.SwitchRecord(record.Purge, secret, true) // undone before a push
	a.SwitchRecord(record.Purge, secret, false)
	wantSent(t, a.MustPush("main"), 0, 0)
	a.SwitchRecord(record.Purge, secret, true)
	wantSent(t, a.MustPush("main"), 1, 0)
	a.SwitchRecord(record.Purge, secret, false)
	wantSent(t, a.MustPush("main"), 1, 0)
	c.MustFetchAll()
	c.MustReach()
	if !c.Has(secret) {
		t.Error("the chunk is missing after the undo")
	}
}

// TestExpireNamed checks that a commit does not expire on a remote while a ref there names
// it, unless the push itself makes or moves this ref.
func TestExpireNamed(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	ids := a.MakeChain(4)
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	c.Refs["refs/heads/topic"] = ids[0]
	c.MustPush("topic")

	tag := c.MakeCommitOn("tagged", func(m *objecttest.Maker) object.ID {
		return m.PutNode(object.KindTag, &object.Tag{Target: ids[1], Name: "v1", Tagger: object.Stamp{Name: "A", Time: object.Time{Sec: 1}}, Message: "m"})
	})
	if _, err := c.Remote.Push(t.Context(), c.Store, transfer.PushOptions{Updates: []transfer.RefUpdate{
		{Name: "refs/tags/v1", New: object.Key{Kind: object.KindTag, ID: tag}},
	}}); err != nil {
		t.Fatal(err)
	}

	for _, id := range ids[:3] {
		a.Expire(id)
	}
	wantSent(t, a.MustPush("main"), 1, 0)
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	transfertest.WantIntact(t, b, nil)

	for i, want := range []bool{true, true, false} {
		if remoteHas(t, b, a.TreeOf(ids[i])) != want {
			t.Errorf("content of commit %d on the remote: %v, want %v", i, !want, want)
		}
	}

	// It expires when the ref is deleted, even in the same push.
	wantSent(t, a.MustPush("main", "topic"), 1, 0)
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	transfertest.WantIntact(t, b, nil)

	// A ref that the push makes may name an expired commit. Otherwise this
	// repository could not be copied.
	a.CollectLocal()
	copied := transfertest.NewRemote(t)
	a.ReopenAt(copied)
	a.Refs["refs/heads/old"] = ids[0]
	a.MustPush("main", "old")
	transfertest.WantIntact(t, copied, nil)
}

// TestPrivate checks that a push sends no records of commits that the remote does not have.
func TestPrivate(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	a := transfertest.NewSide(t, faulty)
	ids := a.MakeChain(1)
	private := a.CommitFile("private", 5, ids[0])
	last := a.CommitFile("private", 6, private)
	a.Hold(private)
	a.Hold(last)
	a.Expire(private)
	wantSent(t, a.MustPush("main"), 0, 0)
	// The same holds if an interrupted push has sent the commits.
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.Before, Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := a.PushBranches(false, "private"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.Refs["refs/heads/main"] = a.CommitFile("main", 7, ids[0])
	wantSent(t, a.MustPush("main"), 0, 3)
	transfertest.WantIntact(t, b, nil)
	// The records are sent together with the commits.
	if result := a.MustPush("private"); result.Records != 3 {
		t.Errorf("push: %+v, want 3 records", result)
	}
	transfertest.WantIntact(t, b, nil)
}

// TestFetchStuck checks that a record does not stop a fetch if neither end has the content
// that the record requires.
func TestFetchStuck(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := transfertest.NewSide(t, b)
	ids := a.MakeChain(3)
	c := transfertest.NewSide(t, b)
	c.MustFetchAll()
	a.Expire(ids[0])
	a.MustPush("main")
	transfertest.MustCollect(t, b, transfertest.AtOnce)

	// The clone undoes the expiration, and loses the commit in a gc.
	c.Unexpire(ids[0])
	c.Unexpire(ids[0])
	c.Refs = map[string]object.ID{}
	c.CollectLocal()
	c.MustFetchAll()
	c.MustReach()

	if r, _ := c.Records.Get(record.Expire, objecttest.CommitKeys(ids[0])[0]); !r.On {
		t.Errorf("expiration: %+v, want on", r)
	}

	// The remote gets an undo of the expiration, and loses the commit in a collection.
	a.Unexpire(ids[0])
	wantSent(t, a.MustPush("main"), 1, 2)
	a.Refs[transfertest.MainRef] = a.CommitFile("main", 9)
	a.MustPush("main")
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	c.Refs["refs/heads/kept"] = ids[2]

	for range 2 {
		c.MustFetchAll()
		c.MustReach()
		if r, _ := c.Records.Get(record.Expire, objecttest.CommitKeys(ids[0])[0]); !r.On {
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
