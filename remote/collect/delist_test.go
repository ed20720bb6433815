package collect_test

import (
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestCollectDelistsIndex checks that the root that forgets a deleted pack replaces an index
// file that names the pack. Otherwise the missing pack would be live again. The index file
// appears just before this root.
func TestCollectDelistsIndex(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		p := transfertest.NewPusher(t, b)
		want := map[string]object.ID{"keep": p.MakeMany(1, 600)}
		p.MustPush("keep", want["keep"])
		gc := transfertest.NewCollector(t, b)
		kept := gc.Head().Indexes[0]
		p.MustPush("dead", p.MakeMany(2, 600))

		var stale []pack.Entry
		for _, f := range gc.Head().Indexes {
			if f != kept {
				stale = append(stale, gc.EntriesOf(f)...)
			}
		}
		if len(stale) == 0 {
			t.Fatal("no index file names the packs of the deleted branch")
		}

		gc.DeleteBranch("dead")
		transfertest.MustCollect(t, b, collect.Options{ForgetAfter: time.Hour})
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 1, Do: func() {
			gc.AppendRoot(func(*rootlog.State) rootlog.Change {
				return rootlog.Change{AddIndexes: []rootlog.File{gc.PutIndex(append(gc.EntriesOf(kept), stale...))}}
			})
		}})
		if again {
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, N: 2, Do: func() {
				want["more"] = p.MakeGrown(3)
				p.MustPush("more", want["more"])
			}})
		}
		st, err := transfertest.CollectIn(t, faulty, nil, transfertest.AtOnce)
		if err != nil || st.Forgotten == 0 || st.Indexes == 0 {
			t.Errorf("again %t: %+v, %v", again, st, err)
		}
		if faulty.Calls(remotetest.Create) < 2 {
			t.Error("no race was lost")
		}

		for _, f := range gc.Head().Indexes {
			for _, e := range gc.EntriesOf(f) {
				if b.Data(e.Pack.Name.Path()) == nil {
					t.Fatalf("again %t: %s names a missing pack", again, f.Name.IndexPath())
				}
			}
		}

		transfertest.WantIntact(t, b, want)
		for range 3 {
			transfertest.MustCollect(t, b, transfertest.AtOnce)
		}
		transfertest.WantNoGarbage(t, b)
		transfertest.WantIntact(t, b, want)
	}
}
