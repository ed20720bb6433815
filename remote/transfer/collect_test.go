package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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
	defer r.closeIndexes(nil)
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
	if st := mustCollect(t, b, atOnce); st.Live != 0 || st.Removed == 0 || st.Condemned == 0 || st.Deleted < st.Condemned || st.After > 1000 {
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
	if st := mustCollect(t, b, atOnce); st.Condemned+st.Deleted+st.Delisted > 0 || b.Calls(remotetest.Create) > 0 {
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
	st := mustCollect(t, b, CollectOptions{Grace: time.Hour, DelistAfter: time.Hour, OrphanAge: time.Hour, MaxWaste: 1})
	if st.Condemned != 5 || st.Deleted != 0 || st.Waiting != 5 || st.Next.IsZero() || st.Repacked != 0 {
		t.Errorf("%+v", st)
	}
	wantWhole(t, b, map[string]object.ID{"keep": keep, "small": small})
	st = mustCollect(t, b, CollectOptions{DelistAfter: time.Hour, OrphanAge: time.Hour, MaxWaste: 1})
	if st.Condemned != 0 || st.Deleted != 5 || st.Waiting != 0 || st.After >= st.Before {
		t.Errorf("%+v", st)
	}
	wantWhole(t, b, map[string]object.ID{"keep": keep, "small": small})
	for range 2 {
		st = mustCollect(t, b, CollectOptions{MaxWaste: 1})
	}
	if st.Delisted != 0 {
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
		if st.Repacked == 0 || st.Written == 0 || st.Written > 2 || st.After > st.Before*6/10 {
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
		if st := mustCollect(t, b, CollectOptions{MaxWaste: 1}); st.Repacked < 12 || st.Written != 2 {
			t.Errorf("large %v: small packs: %+v", large, st)
		}
		for range 3 {
			st = mustCollect(t, b, CollectOptions{MaxWaste: 1})
		}
		if st.Repacked+st.Condemned > 0 {
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
	if plan != st || st.Condemned == 0 {
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
	if st := mustCollect(t, b, CollectOptions{OrphanAge: time.Hour}); st.Condemned != 0 {
		t.Errorf("%+v", st)
	}
	if st := mustCollect(t, b, CollectOptions{Grace: time.Hour}); st.Condemned != 3 || st.Deleted != 0 {
		t.Errorf("%+v", st)
	}
	condemned := newCollector(t, b).head().Condemned
	for _, name := range names {
		if _, ok := condemned[name]; !ok || b.Data(name) == nil {
			t.Errorf("%s: condemned %v", name, ok)
		}
	}
	if st := mustCollect(t, b, atOnce); st.Deleted != 3 || st.Delisted != 3 {
		t.Errorf("%+v", st)
	}
	if len(b.Names("packs/readme")) != 1 || len(b.Names("packs/00/")) != 1 {
		t.Error("somebody else's file was deleted")
	}
}

// TestCollectDamaged has something damaged or missing that is needed: nothing is
// condemned or deleted.
func TestCollectDamaged(t *testing.T) {
	t.Parallel()
	start := newRemoteIn(t)
	p := newPusher(t, start)
	p.mustPush("main", p.grow(1))
	p.mustPush("other", p.many(2, 460))
	newCollector(t, start).delete("other")
	var node, chunk string
	for _, p := range newCollector(t, start).head().Packs {
		if p.Entries[0].Key.Kind.IsNode() {
			node = p.Name.Path()
		} else {
			chunk = p.Name.Path()
		}
	}
	before := start.Snapshot()
	for what, damage := range map[string]func(b *remotetest.Memory){
		"a damaged node":   func(b *remotetest.Memory) { b.Damage(node, 40) },
		"a pack gone":      func(b *remotetest.Memory) { b.Remove(node) },
		"chunks gone":      func(b *remotetest.Memory) { b.Remove(chunk) },
		"a pack cut off":   func(b *remotetest.Memory) { b.Truncate(chunk, 200) },
		"no longer named":  func(b *remotetest.Memory) { newCollector(t, b).condemn(chunk) },
		"index file gone":  func(b *remotetest.Memory) { b.Remove(b.Names("index/")[0]) },
		"index file wrong": func(b *remotetest.Memory) { b.Damage(b.Names("index/")[0], 300) },
	} {
		b := remotetest.NewMemory()
		b.Restore(before)
		damage(b)
		names, head := len(files(b)), newCollector(t, b).head().Seq
		b.ResetCounts()
		_, err := collectIn(t, b, nil, atOnce)
		if !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if len(files(b)) != names || newCollector(t, b).head().Seq != head || b.Calls(remotetest.Delete)+b.Calls(remotetest.Put) > 0 {
			t.Errorf("%s: something was changed", what)
		}
		var needed *NeededError
		if !strings.HasPrefix(what, "index") && !errors.As(err, &needed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nodes that are here need not be read.
	b := remotetest.NewMemory()
	b.Restore(before)
	b.Damage(node, 40)
	if _, err := collectIn(t, b, p.local, CollectOptions{MaxWaste: 1}); err != nil {
		t.Error(err)
	}
	b.Restore(before)
	b.Damage(chunk, 40) // a chunk that is to be copied
	other := map[string]string{"only": noise(10, 300)}
	q := newPusher(t, b)
	q.mustPush("main2", q.commit(q.tree(other, nil)))
	gc := newCollector(t, b)
	gc.delete("main")
	head := gc.head().Seq
	if _, err := collectIn(t, b, nil, atOnce); err != nil && (!errors.Is(err, object.ErrCorrupt) || gc.head().Seq != head) {
		t.Errorf("%v", err)
	}
}

// TestCollectInterrupted has a collection end at each of its calls, before or
// after that takes effect. The remote is whole, and the next ones do the rest.
func TestCollectInterrupted(t *testing.T) {
	t.Parallel()
	start := newRemoteIn(t)
	p := newPusher(t, start)
	keep := p.grow(1, p.many(1, 460))
	p.mustPush("keep", keep)
	p.mustPush("large", p.many(2, 460))
	p.mustPush("small", p.grow(3))
	gc := newCollector(t, start)
	gc.delete("large")
	gc.delete("small")
	before := start.Snapshot()
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		for n := 1; ; n += 1 + n/12 {
			b := remotetest.NewMemory()
			b.Restore(before)
			faulty := remotetest.NewFaulty(b)
			faulty.Fail(remotetest.Fault{N: n, How: how, Err: remote.ErrPermission})
			faulty.Fail(remotetest.Fault{N: n + 1, Stays: true, Err: remote.ErrPermission})
			r, err := openTest(t, faulty, "")
			if err == nil {
				var c *Collection
				if c, err = r.PlanGC(t.Context(), nil, atOnce); err == nil {
					err = c.Apply(t.Context())
					c.Close()
				}
			}
			if faulty.Calls(remotetest.Any) < n {
				if err != nil || n < 20 {
					t.Errorf("after %d calls: %v", n, err)
				}
				break
			}
			wantWhole(t, b, map[string]object.ID{"keep": keep})
			for range 3 {
				mustCollect(t, b, atOnce)
			}
			wantOnly(t, b)
			wantWhole(t, b, map[string]object.ID{"keep": keep})
			if t.Failed() {
				t.Fatalf("interrupted at call %d, %v", n, how)
			}
		}
	}
}

// TestCollectLosesRace has others append roots just before the collector does.
func TestCollectLosesRace(t *testing.T) {
	t.Parallel()
	type others struct {
		p    *pusher
		gc   *collector
		b    *remotetest.Memory
		want map[string]object.ID
		dead object.ID // of which nothing is needed

		whole object.ID // of which half is
	}
	for what, meanwhile := range map[string]func(o *others){
		"a small push": func(o *others) { o.want["new"] = o.p.grow(8); o.p.mustPush("new", o.want["new"]) },
		"a large push": func(o *others) { o.want["new"] = o.p.many(8, 600); o.p.mustPush("new", o.want["new"]) },
		"a push of what is garbage": func(o *others) {
			o.want["back"] = o.p.grow(9, o.dead)
			if st := o.p.mustPush("back", o.want["back"]); st.Objects > 40 {
				o.p.t.Errorf("%d objects were sent", st.Objects)
			}
		},
		"a push of the rest of a pack": func(o *others) {
			o.want["back"] = o.p.grow(9, o.whole)
			o.p.mustPush("back", o.want["back"])
		},
		"many pushes": func(o *others) { // one puts others' packs into an index file
			before := len(o.b.Names("index/"))
			for i := range 4 {
				name := fmt.Sprint("new", i)
				o.want[name] = o.p.many(10+i, 200)
				o.p.mustPush(name, o.want[name])
			}
			if len(o.b.Names("index/")) == before {
				o.p.t.Error("no push has made an index file")
			}
		},
		"a collector":                      func(o *others) { mustCollect(o.p.t, o.b, CollectOptions{Grace: time.Hour}) },
		"a collector that deletes":         func(o *others) { mustCollect(o.p.t, o.b, CollectOptions{DelistAfter: time.Hour}) },
		"a collector that delists as well": func(o *others) { mustCollect(o.p.t, o.b, atOnce) },
		"a branch deleted":                 func(o *others) { o.gc.delete("half"); delete(o.want, "half") },
	} {
		for _, variant := range []struct {
			objects int // so many that there are index files, or not
			repack  bool
		}{{460, false}, {460, true}, {20, true}} {
			b := newRemoteIn(t)
			p := newPusher(t, b)
			o := &others{p: p, gc: newCollector(t, b), b: b, want: map[string]object.ID{}, dead: p.many(2, variant.objects)}
			// A chunk whose entry lies in the root, needed by a node that an
			// index file names.
			shared := map[string]string{"shared": noise(60_000, 500)}
			p.mustPush("first", p.commit(p.tree(shared, nil)))
			for i := range variant.objects {
				shared[fmt.Sprint("f", i)] = noise(61_000+i, 60)
			}
			o.want["shared"] = p.commit(p.tree(shared, nil))
			p.mustPush("shared", o.want["shared"])
			o.gc.delete("first")
			o.want["keep"] = p.grow(1, p.many(1, variant.objects))
			p.mustPush("keep", o.want["keep"])
			p.mustPush("dead", o.dead)
			p.mustPush("deadtoo", p.many(3, variant.objects))
			files := map[string]string{}
			for i := range 20 {
				files[fmt.Sprint("f", i)] = noise(70_000+i, 500)
			}
			o.whole = p.commit(p.tree(files, nil))
			p.mustPush("whole", o.whole)
			o.want["half"] = p.commit(p.tree(map[string]string{"f1": files["f1"]}, nil))
			p.mustPush("half", o.want["half"])
			o.gc.delete("dead")
			o.gc.delete("deadtoo")
			o.gc.delete("whole")
			faulty := remotetest.NewFaulty(b)
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { meanwhile(o) }})
			opt := CollectOptions{MaxWaste: 1}
			if variant.repack {
				opt.MaxWaste = 0
			}
			if _, err := collectIn(t, faulty, nil, opt); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			wantWhole(t, b, o.want)
			for range 3 {
				mustCollect(t, b, opt)
			}
			if variant.repack {
				wantOnly(t, b)
			}
			wantWhole(t, b, o.want)
			if t.Failed() {
				t.Fatalf("%s, %+v", what, variant)
			}
		}
	}
}

// TestFetchWhileCollected has a collector repack what a fetch is reading, and
// delete the old packs and index files.
func TestFetchWhileCollected(t *testing.T) {
	t.Parallel()
	start := newRemoteIn(t)
	p := newPusher(t, start)
	content := map[string]string{}
	for i := range 500 {
		content[fmt.Sprint("f", i)] = noise(i, 100)
	}
	p.mustPush("both", p.commit(p.tree(content, nil)))
	for i := range 250 {
		delete(content, fmt.Sprint("f", i))
	}
	p.mustPush("main", p.commit(p.tree(content, nil)))
	newCollector(t, start).delete("both")
	before := start.Snapshot()
	for n := 1; ; n++ {
		b := remotetest.NewMemory()
		b.Restore(before)
		faulty := remotetest.NewFaulty(b)
		c := newClone(t, faulty)
		head, err := c.remote.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := false
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, N: n, Do: func() {
			if st := mustCollect(t, b, atOnce); st.Repacked < 1 || st.Deleted < 3 {
				t.Errorf("%+v", st)
			}
			done = true
		}})
		if _, err := c.fetch(head); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if got := len(closure(t, c.store, head.Refs[mainRef])); got < 250 {
			t.Errorf("call %d: %d objects", n, got)
		}
		if !done {
			if n < 4 {
				t.Errorf("only %d calls", n-1)
			}
			break
		}
	}
}

// TestCollectBesideOthers has two pushers and two collectors at work at once.
func TestCollectBesideOthers(t *testing.T) {
	t.Parallel()
	b := newRemoteIn(t)
	var pushers, collectors sync.WaitGroup
	want := make([]map[string]object.ID, 2)
	over := make(chan struct{})
	for i := range 2 {
		want[i] = map[string]object.ID{}
		p := newPusher(t, b)
		pushers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for n := range 25 {
				branch := fmt.Sprintf("p%d-%d", i, rng.IntN(3))
				at, ok := want[i][branch]
				switch {
				case ok && rng.IntN(3) == 0:
					if _, err := p.remote.Push(context.Background(), p.local, PushOptions{
						Updates: []RefUpdate{{Name: "refs/heads/" + branch, Force: true}},
					}); err != nil {
						t.Errorf("delete: %v", err)
					}
					delete(want[i], branch)
					continue
				case rng.IntN(8) == 0:
					at = p.many(i*100+n, 500)
					branch = fmt.Sprintf("p%d-large%d", i, n)
				case ok:
					at = p.grow(rng.IntN(20), at)
				default:
					at = p.grow(rng.IntN(20))
				}
				if _, err := p.push(branch, at); err != nil {
					t.Errorf("push: %v", err)
					return
				}
				want[i][branch] = at
			}
		})
	}
	var deleted int64
	var mu sync.Mutex
	for i := range 2 {
		collectors.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				st, err := collectIn(t, b, nil, CollectOptions{OrphanAge: time.Duration(i) * 1000 * time.Hour * 24})
				if err != nil {
					t.Errorf("collect: %v", err)
					return
				}
				mu.Lock()
				deleted += int64(st.Deleted)
				mu.Unlock()
			}
		})
	}
	pushers.Wait()
	close(over)
	collectors.Wait()
	for name, id := range want[1] {
		want[0][name] = id
	}
	wantWhole(t, b, want[0])
	for range 3 {
		mustCollect(t, b, atOnce)
	}
	wantOnly(t, b)
	wantWhole(t, b, want[0])
	if deleted == 0 {
		t.Error("nothing was ever deleted")
	}
}
