package collect_test

import (
	"context"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestCollectExpired checks that a collection deletes expired content, except that of held
// commits.
func TestCollectExpired(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	content := func(n int) string { return objecttest.Noise(90_000+n, 3000) }
	var ids []object.ID
	for i := range 4 {
		ids = append(ids, p.MakeCommit(p.MakeTree(map[string]string{"f": content(i)}, nil), ids...))
		p.MustPush("main", ids[i])
	}
	gc := transfertest.NewCollector(t, b)
	setRecords := func(kind record.Kind, on bool, list ...object.ID) {
		gc.AppendRoot(func(head *rootlog.State) rootlog.Change {
			set := head.Records.Clone()
			for _, id := range list {
				set.Switch(record.Record{Kind: kind, Key: object.Key{Kind: object.KindCommit, ID: id}, On: on, Time: time.Unix(1_700_000_000, 0).UTC()})
			}
			return rootlog.Change{Records: set.Newer(head.Records)}
		})
	}
	wantContent := func(want ...bool) {
		t.Helper()
		for range 3 {
			transfertest.MustCollect(t, b, transfertest.AtOnce)
		}
		transfertest.WantIntact(t, b, map[string]object.ID{"main": ids[3]})
		r, err := transfertest.OpenTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		snap, err := r.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range want {
			_, there, err := snap.Find(object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(content(i)))})
			if err != nil || there != want {
				t.Errorf("content %d exists: %v, want %v; %v", i, there, want, err)
			}
		}
	}
	setRecords(record.Hold, true, ids[1])
	setRecords(record.Expire, true, ids[0], ids[1])
	wantContent(false, true, true, true)
	setRecords(record.Hold, false, ids[1])
	wantContent(false, false, true, true)

	// An expiration is undone during a collection.
	setRecords(record.Expire, true, ids[2])
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { setRecords(record.Expire, false, ids[2]) }})
	if _, err := transfertest.CollectIn(t, faulty, nil, transfertest.AtOnce); err != nil {
		t.Fatal(err)
	}
	wantContent(false, false, true, true)

	// Held content stays without a ref.
	setRecords(record.Hold, true, ids[2])
	gc.DeleteBranch("main")
	for range 3 {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
	}
	if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Live == 0 {
		t.Errorf("collection with only a hold: %+v", st)
	}
	p.MustPush("main", ids[3])
	wantContent(false, false, true, true)
}
