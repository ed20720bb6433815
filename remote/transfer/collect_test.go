package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// atOnce sets all ages to 0 and permits no waste.
var atOnce = CollectOptions{}

// collectIn collects garbage on a remote, like a process without a cache.
func collectIn(t testing.TB, b remote.Backend, local object.Reader, o CollectOptions) (CollectStats, error) {
	t.Helper()
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.indexes.close(nil)
	c, err := r.PlanGC(context.Background(), local, o)
	if err != nil {
		return CollectStats{}, err
	}
	defer c.Close()
	if !o.DryRun {
		err = c.Apply(context.Background())
	}
	return c.Stats(), err
}

func mustCollect(t testing.TB, b remote.Backend, o CollectOptions) CollectStats {
	t.Helper()
	st, err := collectIn(t, b, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// files returns the names of all packs, index files and state files.
func files(b *remotetest.Memory) []string {
	return slices.Concat(b.Names("packs/"), b.Names("index/"), b.Names("state/"))
}

// wantNoGarbage checks that the head needs every file, and that none is condemned.
func wantNoGarbage(t testing.TB, b *remotetest.Memory) {
	t.Helper()
	head := newCollector(t, b).head()
	needed := newCollector(t, b).reachablePacks()
	for _, name := range head.StateFiles() {
		needed[name] = true
	}
	if len(needed) > len(head.StateFiles()) {
		for _, f := range head.Indexes {
			needed[f.Name.IndexPath()] = true
		}
	}
	for _, name := range files(b) {
		if !needed[name] {
			t.Errorf("%s is garbage", name)
		}
	}
	if len(head.Condemned) > 0 {
		t.Errorf("%d files are condemned, want none", len(head.Condemned))
	}
}

// many makes a commit of n small files.
func (p *pusher) many(seed, n int, parents ...object.ID) object.ID {
	p.t.Helper()
	content := map[string]string{}
	for i := range n {
		content[fmt.Sprint("f", i)] = noise(seed*100_000+i, 60)
	}
	return p.commit(p.tree(content, nil), parents...)
}

func TestCollectEverything(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	b := newRemote(t)
	p := newPusher(t, b)
	gc := newCollector(t, b)

	for i := range 3 {
		p.mustPush(fmt.Sprint("small", i), p.grow(i))
		p.mustPush(fmt.Sprint("large", i), p.many(i, 600))
	}

	for i := range 400 { // enough refs for state files
		gc.append(func(head *rootlog.State) rootlog.Change {
			return rootlog.Change{Refs: []rootlog.RefChange{{Name: fmt.Sprintf("refs/heads/%0100d", i), New: head.Refs["refs/heads/small0"]}}}
		})
	}

	if n := len(b.Names("state/")); n == 0 {
		t.Fatal("no state files")
	}
	gc.append(func(head *rootlog.State) rootlog.Change {
		var c rootlog.Change
		for name, key := range head.Refs {
			c.Refs = append(c.Refs, rootlog.RefChange{Name: name, Old: key})
		}
		return c
	})
	if st := mustCollect(t, b, atOnce); st.Live != 0 || st.Removed == 0 || st.Marked == 0 || st.Deleted < st.Marked || st.After > 1000 {
		t.Errorf("collection of everything: %+v", st)
	}

	for range 2 {
		mustCollect(t, b, atOnce)
	}
	wantNoGarbage(t, b)
	if left := slices.Concat(b.Names("packs/"), b.Names("index/")); len(left) > 0 {
		t.Errorf("packs and index files left: %q", left)
	}

	b.ResetCounts()
	if st := mustCollect(t, b, atOnce); st.Marked+st.Deleted+st.Forgotten > 0 || b.Calls(remotetest.Create) > 0 {
		t.Errorf("a collection without garbage changed something: %+v", st)
	}
	wantIntact(t, b, map[string]object.ID{})
}

func TestCollectSome(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p := newPusher(t, b)
	keep := p.many(1, 700)
	p.mustPush("keep", keep)
	p.mustPush("large", p.many(2, 700))
	small := p.grow(3, keep)
	p.mustPush("small", small)
	p.mustPush("other", p.grow(4))
	gc := newCollector(t, b)
	gc.delete("large")
	gc.delete("other")

	st := mustCollect(t, b, CollectOptions{Grace: time.Hour, ForgetAfter: time.Hour, PruneAge: time.Hour, MaxWaste: 1})
	if st.Marked != 5 || st.Deleted != 0 || st.Waiting != 5 || st.Next.IsZero() || st.Rewritten != 0 {
		t.Errorf("collection with a grace: %+v", st)
	}

	wantIntact(t, b, map[string]object.ID{"keep": keep, "small": small})
	st = mustCollect(t, b, CollectOptions{ForgetAfter: time.Hour, PruneAge: time.Hour, MaxWaste: 1})
	if st.Marked != 0 || st.Deleted != 5 || st.Waiting != 0 || st.After >= st.Before {
		t.Errorf("collection after the grace: %+v", st)
	}

	wantIntact(t, b, map[string]object.ID{"keep": keep, "small": small})
	for range 2 {
		st = mustCollect(t, b, CollectOptions{MaxWaste: 1})
	}
	if st.Forgotten != 0 {
		t.Errorf("collection without garbage: %+v", st)
	}

	wantNoGarbage(t, b)
	p.mustPush("again", p.many(2, 700))
	wantIntact(t, b, nil)
}

// TestCollectRepacks checks that packs with much garbage are repacked, and small packs if
// there are many.
func TestCollectRepacks(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		b := newRemote(t)
		p := newPusher(t, b)
		files := map[string]string{}
		n := 30
		if large {
			n = 900
		}

		for i := range n {
			files[fmt.Sprint("f", i)] = noise(i, 1000)
		}
		both := p.commit(p.tree(files, nil))
		p.mustPush("both", both)

		few := map[string]string{}
		for i := range n / 2 {
			few[fmt.Sprint("f", i)] = files[fmt.Sprint("f", i)]
		}
		half := p.commit(p.tree(few, nil))
		p.mustPush("half", half)
		newCollector(t, b).delete("both")

		st := mustCollect(t, b, atOnce)
		if st.Rewritten == 0 || st.Written == 0 || st.Written > 2 || st.After > st.Before*6/10 {
			t.Errorf("large %v: %+v", large, st)
		}

		for range 2 {
			mustCollect(t, b, atOnce)
		}
		wantNoGarbage(t, b)
		wantIntact(t, b, map[string]object.ID{"half": half})

		at := half
		for i := range 12 {
			at = p.grow(i, at)
			p.mustPush("half", at)
		}

		if st := mustCollect(t, b, CollectOptions{MaxWaste: 1}); st.Rewritten < 12 || st.Written != 2 {
			t.Errorf("large %v: small packs: %+v", large, st)
		}
		for range 3 {
			st = mustCollect(t, b, CollectOptions{MaxWaste: 1})
		}
		if st.Rewritten+st.Marked > 0 {
			t.Errorf("large %v: the last collection repacked: %+v", large, st)
		}

		wantNoGarbage(t, b)
		wantIntact(t, b, map[string]object.ID{"half": at})
		if n := len(b.Names("packs/")); n > 4 {
			t.Errorf("large %v: %d packs are left", large, n)
		}
	}
}

func TestCollectDryRun(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	p := newPusher(t, b)
	p.mustPush("keep", p.grow(1))
	p.mustPush("other", p.many(2, 700))
	newCollector(t, b).delete("other")
	r, err := openTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	b.ResetCounts()
	c, err := r.PlanGC(t.Context(), p.local, CollectOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	plan := c.Stats()
	c.Close()

	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create) + b.Calls(remotetest.Delete); n > 0 {
		t.Errorf("the plan made %d calls that write", n)
	}
	st := mustCollect(t, b, atOnce)
	if diff := st.After - plan.After; diff < 0 || diff > 2000 { // the plan does not know the size of the new index file
		t.Errorf("%d bytes are left, planned %d", st.After, plan.After)
	}

	plan.After = st.After
	if plan != st || st.Marked == 0 {
		t.Errorf("planned %+v\ndone    %+v", plan, st)
	}
}

// TestCollectOrphans checks that old files that no root names are condemned, and deleted only
// after that.
func TestCollectOrphans(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	now := time.Now()
	b.Now = func() time.Time { return now }
	p := newPusher(t, b)
	p.mustPush("main", p.grow(1))
	names := []string{
		"packs/11/11" + strings.Repeat("0", 30), "index/22" + strings.Repeat("0", 30), "state/33" + strings.Repeat("0", 30),
	}

	for _, name := range append(slices.Clone(names), "packs/readme", "packs/00/11"+strings.Repeat("0", 30)) {
		b.Set(name, []byte("an orphan"))
	}
	if st := mustCollect(t, b, CollectOptions{PruneAge: time.Hour}); st.Marked != 0 {
		t.Errorf("collection of new orphans: %+v", st)
	}
	if st := mustCollect(t, b, CollectOptions{Grace: time.Hour}); st.Marked != 3 || st.Deleted != 0 {
		t.Errorf("collection of old orphans: %+v", st)
	}

	condemned := newCollector(t, b).head().Condemned
	for _, name := range names {
		if _, ok := condemned[name]; !ok || b.Data(name) == nil {
			t.Errorf("%s: condemned %v, %d bytes; want it condemned, not deleted", name, ok, len(b.Data(name)))
		}
	}

	if st := mustCollect(t, b, atOnce); st.Deleted != 3 || st.Forgotten != 3 {
		t.Errorf("collection of condemned orphans: %+v", st)
	}
	if len(b.Names("packs/readme")) != 1 || len(b.Names("packs/00/11")) != 1 {
		t.Error("a file that kist did not write was deleted")
	}
}
