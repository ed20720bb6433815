package collect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestCollectLosesRace checks that a collection deletes nothing reachable if another process
// appends a root just before it.
func TestCollectLosesRace(t *testing.T) {
	t.Parallel()
	type others struct {
		p    *transfertest.Pusher
		gc   *transfertest.Collector
		b    *remotetest.Memory
		want map[string]object.ID
		dead object.ID // unreachable

		whole object.ID // unreachable; a file of it is reachable from half
	}
	for what, meanwhile := range map[string]func(o *others){
		"a small push": func(o *others) { o.want["new"] = o.p.MakeGrown(8); o.p.MustPush("new", o.want["new"]) },
		"a large push": func(o *others) { o.want["new"] = o.p.MakeMany(8, 600); o.p.MustPush("new", o.want["new"]) },
		"a push of garbage": func(o *others) {
			o.want["back"] = o.p.MakeGrown(9, o.dead)
			if st := o.p.MustPush("back", o.want["back"]); st.Objects > 40 {
				o.p.T.Errorf("%d objects were sent, want at most 40", st.Objects)
			}
		},
		"a push of the rest of a pack": func(o *others) {
			o.want["back"] = o.p.MakeGrown(9, o.whole)
			o.p.MustPush("back", o.want["back"])
		},
		"many pushes": func(o *others) { // one moves inline packs of the others to an index file
			before := len(o.b.Names("index/"))
			for i := range 4 {
				name := fmt.Sprint("new", i)
				o.want[name] = o.p.MakeMany(10+i, 200)
				o.p.MustPush(name, o.want[name])
			}
			if len(o.b.Names("index/")) == before {
				o.p.T.Error("no push has made an index file")
			}
		},
		"a collector":                      func(o *others) { transfertest.MustCollect(o.p.T, o.b, collect.Options{Grace: time.Hour}) },
		"a collector that deletes":         func(o *others) { transfertest.MustCollect(o.p.T, o.b, collect.Options{ForgetAfter: time.Hour}) },
		"a collector that delists as well": func(o *others) { transfertest.MustCollect(o.p.T, o.b, transfertest.AtOnce) },
		"a branch deleted":                 func(o *others) { o.gc.DeleteBranch("half"); delete(o.want, "half") },
	} {
		for _, variant := range []struct {
			objects int // 460: enough for index files
			repack  bool
		}{{460, false}, {460, true}, {20, true}} {
			if testing.Short() && !(variant.repack && variant.objects > 20) {
				continue // the race detector finds races in the other variant, too
			}
			b := transfertest.NewRemote(t)
			p := transfertest.NewPusher(t, b)
			o := &others{p: p, gc: transfertest.NewCollector(t, b), b: b, want: map[string]object.ID{}, dead: p.MakeMany(2, variant.objects)}
			// A chunk with an inline entry, and a node that links to it in an index file.
			shared := map[string]string{"shared": objecttest.Noise(60_000, 500)}
			p.MustPush("first", p.MakeCommit(p.MakeTree(shared, nil)))
			for i := range variant.objects {
				shared[fmt.Sprint("f", i)] = objecttest.Noise(61_000+i, 60)
			}
			o.want["shared"] = p.MakeCommit(p.MakeTree(shared, nil))
			p.MustPush("shared", o.want["shared"])
			o.gc.DeleteBranch("first")
			o.want["keep"] = p.MakeGrown(1, p.MakeMany(1, variant.objects))
			p.MustPush("keep", o.want["keep"])
			p.MustPush("dead", o.dead)
			p.MustPush("deadtoo", p.MakeMany(3, variant.objects))
			files := map[string]string{}
			for i := range 20 {
				files[fmt.Sprint("f", i)] = objecttest.Noise(70_000+i, 500)
			}
			o.whole = p.MakeCommit(p.MakeTree(files, nil))
			p.MustPush("whole", o.whole)
			o.want["half"] = p.MakeCommit(p.MakeTree(map[string]string{"f1": files["f1"]}, nil))
			p.MustPush("half", o.want["half"])
			o.gc.DeleteBranch("dead")
			o.gc.DeleteBranch("deadtoo")
			o.gc.DeleteBranch("whole")
			faulty := remotetest.NewFaulty(b)
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { meanwhile(o) }})
			opt := collect.Options{MaxWaste: 1}
			if variant.repack {
				opt.MaxWaste = 0
			}
			if _, err := transfertest.CollectIn(t, faulty, nil, opt); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			transfertest.WantIntact(t, b, o.want)
			for range 3 {
				transfertest.MustCollect(t, b, opt)
			}
			if variant.repack {
				transfertest.WantNoGarbage(t, b)
			}
			transfertest.WantIntact(t, b, o.want)
			if t.Failed() {
				t.Fatalf("%s, %+v", what, variant)
			}
		}
	}
}

// TestFetchWhileCollected checks that a fetch succeeds while a collector repacks the packs
// that it reads, and deletes the old packs and index files.
func TestFetchWhileCollected(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, start)

	content := map[string]string{}
	for i := range 500 {
		content[fmt.Sprint("f", i)] = objecttest.Noise(i, 100)
	}
	p.MustPush("both", p.MakeCommit(p.MakeTree(content, nil)))

	for i := range 250 {
		delete(content, fmt.Sprint("f", i))
	}
	p.MustPush("main", p.MakeCommit(p.MakeTree(content, nil)))
	transfertest.NewCollector(t, start).DeleteBranch("both")

	before := start.Snapshot()
	for n := 1; ; n++ {
		b := remotetest.NewMemory()
		b.Restore(before)
		faulty := remotetest.NewFaulty(b)
		c := transfertest.NewClone(t, faulty)
		head := c.Head()
		done := false
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, N: n, Do: func() {
			if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Rewritten < 1 || st.Deleted < 3 {
				t.Errorf("collection: %+v", st)
			}
			done = true
		}})

		if _, err := c.FetchAt(head); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if got := len(objecttest.Closure(t, c.Store, head.Refs[transfertest.MainRef])); got < 250 {
			t.Errorf("call %d: fetched %d objects, want at least 250", n, got)
		}
		if !done {
			if n < 4 {
				t.Errorf("only %d calls", n-1)
			}
			break
		}
	}
}

// TestCollectBesideOthers runs two pushers and two collectors at once. No reachable object is
// lost.
func TestCollectBesideOthers(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	var pushers, collectors sync.WaitGroup
	want := make([]map[string]object.ID, 2)
	over := make(chan struct{})

	for i := range 2 {
		want[i] = map[string]object.ID{}
		p := transfertest.NewPusher(t, b)
		pushers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for n := range 25 {
				branch := fmt.Sprintf("p%d-%d", i, rng.IntN(3))
				at, ok := want[i][branch]
				switch {
				case ok && rng.IntN(3) == 0:
					if _, err := p.Remote.Push(context.Background(), p.Local, transfer.PushOptions{
						Updates: []transfer.RefUpdate{{Name: "refs/heads/" + branch, Force: true}},
					}); err != nil {
						t.Errorf("delete: %v", err)
					}
					delete(want[i], branch)
					continue
				case rng.IntN(8) == 0:
					at = p.MakeMany(i*100+n, 500)
					branch = fmt.Sprintf("p%d-large%d", i, n)
				case ok:
					at = p.MakeGrown(rng.IntN(20), at)
				default:
					at = p.MakeGrown(rng.IntN(20))
				}

				if _, err := p.PushBranch(branch, at); err != nil {
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

				st, err := transfertest.CollectIn(t, b, nil, collect.Options{PruneAge: time.Duration(i) * 1000 * time.Hour * 24})
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
	transfertest.WantIntact(t, b, want[0])

	for range 3 {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
	}
	transfertest.WantNoGarbage(t, b)
	transfertest.WantIntact(t, b, want[0])
	if deleted == 0 {
		t.Error("no collection deleted anything")
	}
}
