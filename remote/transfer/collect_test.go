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

// atOnce leaves no garbage.
var atOnce = CollectOptions{}

// collectIn collects garbage in a store, as a process does that has nothing
// here.
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
	err = c.Apply(context.Background())
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

// files returns the names of all packs, index and state files.
func files(b *remotetest.Memory) []string {
	return slices.Concat(b.Names("packs/"), b.Names("index/"), b.Names("state/"))
}

// wantOnly wants that there is no file that the root does not need.
func wantOnly(t testing.TB, b *remotetest.Memory) {
	t.Helper()
	head := newCollector(t, b).head()
	needed := newCollector(t, b).needed()
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
			t.Errorf("%s is there, and nothing needs it", name)
		}
	}
	if len(head.Condemned) > 0 {
		t.Errorf("%d files are condemned", len(head.Condemned))
	}
}

// many returns a commit of n files.
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
		t.Skip("it takes a while, most of it in one goroutine")
	}
	b := newRemoteIn(t)
	p := newPusher(t, b)
	gc := newCollector(t, b)
	for i := range 3 {
		p.mustPush(fmt.Sprint("small", i), p.grow(i))
		p.mustPush(fmt.Sprint("large", i), p.many(i, 600))
	}
	for i := range 400 { // there are state files then
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
		t.Errorf("%+v", st)
	}
	for range 2 {
		mustCollect(t, b, atOnce)
	}
	wantOnly(t, b)
	if left := slices.Concat(b.Names("packs/"), b.Names("index/")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	b.ResetCounts()
	if st := mustCollect(t, b, atOnce); st.Marked+st.Deleted+st.Forgotten > 0 || b.Calls(remotetest.Create) > 0 {
		t.Errorf("there is always something to do: %+v", st)
	}
	wantWhole(t, b, map[string]object.ID{})
}

func TestCollectSome(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
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
		t.Errorf("%+v", st)
	}
	wantWhole(t, b, map[string]object.ID{"keep": keep, "small": small})
	st = mustCollect(t, b, CollectOptions{ForgetAfter: time.Hour, PruneAge: time.Hour, MaxWaste: 1})
	if st.Marked != 0 || st.Deleted != 5 || st.Waiting != 0 || st.After >= st.Before {
		t.Errorf("%+v", st)
	}
	wantWhole(t, b, map[string]object.ID{"keep": keep, "small": small})
	for range 2 {
		st = mustCollect(t, b, CollectOptions{MaxWaste: 1})
	}
	if st.Forgotten != 0 {
		t.Errorf("%+v", st)
	}
	wantOnly(t, b)
	p.mustPush("again", p.many(2, 700))
	wantWhole(t, b, nil)
}

// TestCollectRepacks has much garbage in packs of which something is needed,
// and many small packs.
func TestCollectRepacks(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		b := newRemoteIn(t)
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
		wantOnly(t, b)
		wantWhole(t, b, map[string]object.ID{"half": half})
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
			t.Errorf("large %v: repacked again and again: %+v", large, st)
		}
		wantOnly(t, b)
		wantWhole(t, b, map[string]object.ID{"half": at})
		if n := len(b.Names("packs/")); n > 4 {
			t.Errorf("large %v: %d packs are left", large, n)
		}
	}
}

func TestCollectDryRun(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
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
		t.Errorf("%d calls that write", n)
	}
	st := mustCollect(t, b, atOnce)
	if diff := st.After - plan.After; diff < 0 || diff > 2000 { // that of an index file, which is not made
		t.Errorf("%d bytes are left, planned were %d", st.After, plan.After)
	}
	plan.After = st.After
	if plan != st || st.Marked == 0 {
		t.Errorf("planned %+v\ndone    %+v", plan, st)
	}
}

// TestCollectOrphans has files that no root names: they are condemned once they
// are old, and deleted by that only.
func TestCollectOrphans(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
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
		t.Errorf("%+v", st)
	}
	if st := mustCollect(t, b, CollectOptions{Grace: time.Hour}); st.Marked != 3 || st.Deleted != 0 {
		t.Errorf("%+v", st)
	}
	condemned := newCollector(t, b).head().Condemned
	for _, name := range names {
		if _, ok := condemned[name]; !ok || b.Data(name) == nil {
			t.Errorf("%s: condemned %v", name, ok)
		}
	}
	if st := mustCollect(t, b, atOnce); st.Deleted != 3 || st.Forgotten != 3 {
		t.Errorf("%+v", st)
	}
	if len(b.Names("packs/readme")) != 1 || len(b.Names("packs/00/11")) != 1 {
		t.Error("somebody else's file was deleted")
	}
}
