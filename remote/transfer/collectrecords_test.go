package transfer

import (
	"context"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// TestCollectExpired checks that a collection deletes expired content, except that of held
// commits.
func TestCollectExpired(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p := newPusher(t, b)
	content := func(n int) string { return noise(90_000+n, 3000) }
	var ids []object.ID
	for i := range 4 {
		ids = append(ids, p.commit(p.tree(map[string]string{"f": content(i)}, nil), ids...))
		p.mustPush("main", ids[i])
	}
	gc := newCollector(t, b)
	setRecords := func(kind record.Kind, on bool, list ...object.ID) {
		gc.append(func(head *rootlog.State) rootlog.Change {
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
			mustCollect(t, b, atOnce)
		}
		wantIntact(t, b, map[string]object.ID{"main": ids[3]})
		r, err := openTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		snap, err := r.snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range want {
			_, there, err := snap.find(object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(content(i)))})
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
	if _, err := collectIn(t, faulty, nil, atOnce); err != nil {
		t.Fatal(err)
	}
	wantContent(false, false, true, true)

	// Held content stays without a ref.
	setRecords(record.Hold, true, ids[2])
	gc.delete("main")
	for range 3 {
		mustCollect(t, b, atOnce)
	}
	if st := mustCollect(t, b, atOnce); st.Live == 0 {
		t.Errorf("collection with only a hold: %+v", st)
	}
	p.mustPush("main", ids[3])
	wantContent(false, false, true, true)
}
