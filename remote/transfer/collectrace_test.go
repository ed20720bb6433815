package transfer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// TestCollectLosesRace checks that a collection deletes nothing reachable if another process
// appends a root just before it.
func TestCollectLosesRace(t *testing.T) {
	t.Parallel()
	type others struct {
		p    *pusher
		gc   *collector
		b    *remotetest.Memory
		want map[string]object.ID
		dead object.ID // unreachable

		whole object.ID // unreachable; a file of it is reachable from half
	}
	for what, meanwhile := range map[string]func(o *others){
		"a small push": func(o *others) { o.want["new"] = o.p.grow(8); o.p.mustPush("new", o.want["new"]) },
		"a large push": func(o *others) { o.want["new"] = o.p.many(8, 600); o.p.mustPush("new", o.want["new"]) },
		"a push of garbage": func(o *others) {
			o.want["back"] = o.p.grow(9, o.dead)
			if st := o.p.mustPush("back", o.want["back"]); st.Objects > 40 {
				o.p.t.Errorf("%d objects were sent, want at most 40", st.Objects)
			}
		},
		"a push of the rest of a pack": func(o *others) {
			o.want["back"] = o.p.grow(9, o.whole)
			o.p.mustPush("back", o.want["back"])
		},
		"many pushes": func(o *others) { // one moves inline packs of the others to an index file
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
		"a collector that deletes":         func(o *others) { mustCollect(o.p.t, o.b, CollectOptions{ForgetAfter: time.Hour}) },
		"a collector that delists as well": func(o *others) { mustCollect(o.p.t, o.b, atOnce) },
		"a branch deleted":                 func(o *others) { o.gc.delete("half"); delete(o.want, "half") },
	} {
		for _, variant := range []struct {
			objects int // 460: enough for index files
			repack  bool
		}{{460, false}, {460, true}, {20, true}} {
			if testing.Short() && !(variant.repack && variant.objects > 20) {
				continue // the race detector finds races in the other variant, too
			}
			b := newRemote(t)
			p := newPusher(t, b)
			o := &others{p: p, gc: newCollector(t, b), b: b, want: map[string]object.ID{}, dead: p.many(2, variant.objects)}
			// A chunk with an inline entry, and a node that links to it in an index file.
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
			wantIntact(t, b, o.want)
			for range 3 {
				mustCollect(t, b, opt)
			}
			if variant.repack {
				wantNoGarbage(t, b)
			}
			wantIntact(t, b, o.want)
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
	start := newRemote(t)
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
		head := c.head()
		done := false
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, N: n, Do: func() {
			if st := mustCollect(t, b, atOnce); st.Rewritten < 1 || st.Deleted < 3 {
				t.Errorf("collection: %+v", st)
			}
			done = true
		}})

		if _, err := c.fetch(head); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		if got := len(closure(t, c.store, head.Refs[mainRef])); got < 250 {
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
	b := newRemote(t)
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

				st, err := collectIn(t, b, nil, CollectOptions{PruneAge: time.Duration(i) * 1000 * time.Hour * 24})
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
	wantIntact(t, b, want[0])

	for range 3 {
		mustCollect(t, b, atOnce)
	}
	wantNoGarbage(t, b)
	wantIntact(t, b, want[0])
	if deleted == 0 {
		t.Error("no collection deleted anything")
	}
}
