package transfer

import (
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// TestCollectDelistsIndex checks that the root that forgets a deleted pack replaces an index
// file that names the pack. Otherwise the missing pack would be live again. The index file
// appears just before this root.
func TestCollectDelistsIndex(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		b := newRemote(t)
		p := newPusher(t, b)
		want := map[string]object.ID{"keep": p.many(1, 600)}
		p.mustPush("keep", want["keep"])
		gc := newCollector(t, b)
		kept := gc.head().Indexes[0]
		p.mustPush("dead", p.many(2, 600))

		var stale []pack.Entry
		for _, f := range gc.head().Indexes {
			if f != kept {
				stale = append(stale, gc.entriesOf(f)...)
			}
		}
		if len(stale) == 0 {
			t.Fatal("no index file names the packs of the deleted branch")
		}

		gc.delete("dead")
		mustCollect(t, b, CollectOptions{ForgetAfter: time.Hour})
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 1, Do: func() {
			gc.append(func(*rootlog.State) rootlog.Change {
				return rootlog.Change{AddIndexes: []rootlog.File{gc.putIndex(append(gc.entriesOf(kept), stale...))}}
			})
		}})
		if again {
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 2, Do: func() {
				want["more"] = p.grow(3)
				p.mustPush("more", want["more"])
			}})
		}
		st, err := collectIn(t, faulty, nil, atOnce)
		if err != nil || st.Forgotten == 0 || st.Indexes == 0 {
			t.Errorf("again %t: %+v, %v", again, st, err)
		}
		if faulty.Calls(remotetest.Create) < 2 {
			t.Error("no race was lost")
		}

		for _, f := range gc.head().Indexes {
			for _, e := range gc.entriesOf(f) {
				if b.Data(e.Pack.Name.Path()) == nil {
					t.Fatalf("again %t: %s names a missing pack", again, f.Name.IndexPath())
				}
			}
		}

		wantIntact(t, b, want)
		for range 3 {
			mustCollect(t, b, atOnce)
		}
		wantNoGarbage(t, b)
		wantIntact(t, b, want)
	}
}
