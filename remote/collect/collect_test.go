package collect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfertest"
)

func TestCollectEverything(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	gc := transfertest.NewCollector(t, b)

	for i := range 3 {
		p.MustPush(fmt.Sprint("small", i), p.MakeGrown(i))
		p.MustPush(fmt.Sprint("large", i), p.MakeMany(i, 600))
	}

	for i := range 400 { // enough refs for state files
		gc.AppendRoot(func(head *rootlog.State) rootlog.Change {
			return rootlog.Change{Refs: []rootlog.RefChange{{Name: fmt.Sprintf("refs/heads/%0100d", i), New: head.Refs["refs/heads/small0"]}}}
		})
	}

	if n := len(b.Names("state/")); n == 0 {
		t.Fatal("no state files")
	}
	gc.AppendRoot(func(head *rootlog.State) rootlog.Change {
		var c rootlog.Change
		for name, key := range head.Refs {
			c.Refs = append(c.Refs, rootlog.RefChange{Name: name, Old: key})
		}
		return c
	})
	few := int64(5000) // a small state file; on an encrypted remote, it is padded, and there are keysets
	for _, name := range b.Names("keys/") {
		few += int64(len(b.Data(name)))
	}
	if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Live != 0 || st.Removed == 0 || st.Condemned == 0 || st.Deleted < st.Condemned || st.After > few {
		t.Errorf("collection of everything: %+v", st)
	}

	for range 2 {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
	}
	transfertest.WantNoGarbage(t, b)
	if left := slices.Concat(b.Names("packs/"), b.Names("index/")); len(left) > 0 {
		t.Errorf("packs and index files left: %q", left)
	}

	b.ResetCounts()
	if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Condemned+st.Deleted+st.Forgotten > 0 || b.Calls(remotetest.Create) > 0 {
		t.Errorf("a collection without garbage changed something: %+v", st)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{})
}

func TestCollectSome(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	keep := p.MakeMany(1, 700)
	p.MustPush("keep", keep)
	p.MustPush("large", p.MakeMany(2, 700))
	small := p.MakeGrown(3, keep)
	p.MustPush("small", small)
	p.MustPush("other", p.MakeGrown(4))
	gc := transfertest.NewCollector(t, b)
	gc.DeleteBranch("large")
	gc.DeleteBranch("other")

	st := transfertest.MustCollect(t, b, collect.Options{Grace: time.Hour, ForgetAfter: time.Hour, PruneAge: time.Hour, MaxWaste: 1})
	if st.Condemned != 5 || st.Deleted != 0 || st.Waiting != 5 || st.Next.IsZero() || st.Rewritten != 0 {
		t.Errorf("collection with a grace: %+v", st)
	}

	transfertest.WantIntact(t, b, map[string]object.ID{"keep": keep, "small": small})
	st = transfertest.MustCollect(t, b, collect.Options{ForgetAfter: time.Hour, PruneAge: time.Hour, MaxWaste: 1})
	if st.Condemned != 0 || st.Deleted != 5 || st.Waiting != 0 || st.After >= st.Before {
		t.Errorf("collection after the grace: %+v", st)
	}

	transfertest.WantIntact(t, b, map[string]object.ID{"keep": keep, "small": small})
	for range 2 {
		st = transfertest.MustCollect(t, b, collect.Options{MaxWaste: 1})
	}
	if st.Forgotten != 0 {
		t.Errorf("collection without garbage: %+v", st)
	}

	transfertest.WantNoGarbage(t, b)
	p.MustPush("again", p.MakeMany(2, 700))
	transfertest.WantIntact(t, b, nil)
}

// TestCollectRepacks checks that packs with much garbage are repacked, and small packs if
// there are many.
func TestCollectRepacks(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		p := transfertest.NewPusher(t, b)
		files := map[string]string{}
		n, share := 30, int64(60)
		if large {
			n = 900
		} else if transfertest.IsOverCrypt(t) {
			share = 65 // of padded sizes
		}

		for i := range n {
			files[fmt.Sprint("f", i)] = objecttest.Noise(i, 1000)
		}
		both := p.MakeCommit(p.MakeTree(files, nil))
		p.MustPush("both", both)

		few := map[string]string{}
		for i := range n / 2 {
			few[fmt.Sprint("f", i)] = files[fmt.Sprint("f", i)]
		}
		half := p.MakeCommit(p.MakeTree(few, nil))
		p.MustPush("half", half)
		transfertest.NewCollector(t, b).DeleteBranch("both")

		st := transfertest.MustCollect(t, b, transfertest.AtOnce)
		if st.Rewritten == 0 || st.Written == 0 || st.Written > 2 || st.After > st.Before*share/100 {
			t.Errorf("large %v: %+v", large, st)
		}

		for range 2 {
			transfertest.MustCollect(t, b, transfertest.AtOnce)
		}
		transfertest.WantNoGarbage(t, b)
		transfertest.WantIntact(t, b, map[string]object.ID{"half": half})

		at := half
		for i := range 12 {
			at = p.MakeGrown(i, at)
			p.MustPush("half", at)
		}

		if st := transfertest.MustCollect(t, b, collect.Options{MaxWaste: 1}); st.Rewritten < 12 || st.Written != 2 {
			t.Errorf("large %v: small packs: %+v", large, st)
		}
		for range 3 {
			st = transfertest.MustCollect(t, b, collect.Options{MaxWaste: 1})
		}
		if st.Rewritten+st.Condemned > 0 {
			t.Errorf("large %v: the last collection repacked: %+v", large, st)
		}

		transfertest.WantNoGarbage(t, b)
		transfertest.WantIntact(t, b, map[string]object.ID{"half": at})
		if n := len(b.Names("packs/")); n > 4 {
			t.Errorf("large %v: %d packs are left", large, n)
		}
	}
}

func TestCollectDryRun(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("keep", p.MakeGrown(1))
	p.MustPush("other", p.MakeMany(2, 700))
	transfertest.NewCollector(t, b).DeleteBranch("other")
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	b.ResetCounts()
	c, err := collect.PlanGarbage(t.Context(), r, p.Local, collect.Options{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	plan := c.Stats()
	c.Close()

	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create) + b.Calls(remotetest.Delete); n > 0 {
		t.Errorf("the plan made %d calls that write", n)
	}
	st := transfertest.MustCollect(t, b, transfertest.AtOnce)
	index := int64(2000)
	if transfertest.IsOverCrypt(t) {
		index = 5000 // padded
	}
	if diff := st.After - plan.After; diff < 0 || diff > index { // the plan does not know the size of the new index file
		t.Errorf("%d bytes are left, planned %d", st.After, plan.After)
	}

	plan.After = st.After
	if plan != st || st.Condemned == 0 {
		t.Errorf("planned %+v\ndone    %+v", plan, st)
	}
}

// TestCollectOrphans checks that old files that no root names are condemned, and deleted only
// after that.
func TestCollectOrphans(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	now := time.Now()
	b.Now = func() time.Time { return now }
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeGrown(1))
	names := []string{
		"packs/11/11" + strings.Repeat("0", 30), "index/22" + strings.Repeat("0", 30), "state/33" + strings.Repeat("0", 30),
	}

	if transfertest.IsOverCrypt(t) {
		names = append(names, "keys/44"+strings.Repeat("0", 30), "keys/55"+strings.Repeat("0", 30))
	}
	keysets := b.Names("keys/") // of the head
	for _, name := range append(slices.Clone(names), "keys/readme", "packs/readme", "packs/00/11"+strings.Repeat("0", 30)) {
		b.Set(name, []byte("an orphan"))
	}
	if st := transfertest.MustCollect(t, b, collect.Options{PruneAge: time.Hour}); st.Condemned != 0 {
		t.Errorf("collection of new orphans: %+v", st)
	}
	if st := transfertest.MustCollect(t, b, collect.Options{Grace: time.Hour}); st.Condemned != len(names) || st.Deleted != 0 {
		t.Errorf("collection of old orphans: %+v", st)
	}

	condemned := transfertest.NewCollector(t, b).Head().Condemned
	for _, name := range names {
		if _, ok := condemned[name]; !ok || b.Data(name) == nil {
			t.Errorf("%s: condemned %v, %d bytes; want it condemned, not deleted", name, ok, len(b.Data(name)))
		}
	}

	if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Deleted != len(names) || st.Forgotten != len(names) {
		t.Errorf("collection of condemned orphans: %+v", st)
	}
	if len(b.Names("keys/readme")) != 1 || len(b.Names("packs/readme")) != 1 || len(b.Names("packs/00/11")) != 1 {
		t.Error("a file that kist did not write was deleted")
	}
	for _, name := range keysets {
		if b.Data(name) == nil {
			t.Errorf("%s is deleted, a live copy of the keyset", name)
		}
	}
}
