package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// down is the error of a store after the simulated end of the process. It is not retried.
var down = &remote.Error{Kind: remote.ErrPermission, Err: errors.New("down")}

// TestCrash ends a push at each call to the remote, before or after the call takes effect.
// The branch is then old or new. The next push completes, and sends no finished pack again.
func TestCrash(t *testing.T) {
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		for n := 1; ; n++ {
			b := newRemote(t)
			setup := newPusher(t, b)
			one := setup.grow(1)
			setup.mustPush("main", one)

			faulty := remotetest.NewFaulty(b)
			p := &pusher{maker: setup.maker, local: setup.local, dir: t.TempDir()}
			faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: n, How: how})
			faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: n + 1, Stays: true, Err: down})
			two := p.grow(2, one)
			var failed error
			if r, err := openTest(t, faulty, p.dir); err == nil {
				p.remote = r
				_, failed = p.push("main", two)
			} else {
				failed = err
			}
			head := newCollector(t, b).head().Refs[mainRef].ID
			if head != one && head != two {
				t.Fatalf("call %d: main is at %s", n, head)
			}
			wantIntact(t, b, map[string]object.ID{"main": head})
			finished := len(journaled(t, p.dir))
			b.ResetCounts()
			p.reopen(b)
			result, err := p.push("main", two)
			if err != nil {
				t.Fatalf("call %d: the next push: %v", n, err)
			}
			if head == one && result.Packs+finished != 2 || head == two && result.Packs > 0 {
				t.Errorf("call %d: %d packs were finished, the next push sent %d", n, finished, result.Packs)
			}
			wantIntact(t, b, map[string]object.ID{"main": two})
			if left := journaled(t, p.dir); len(left) > 0 && head == one {
				t.Errorf("call %d: left in the journal: %q", n, left)
			}
			if failed == nil {
				if n < 7 {
					t.Errorf("only %d calls", n-1)
				}
				break
			}
		}
	}
}

// journaled returns the names of the packs in the journal of a folder.
func journaled(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pushFolder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, err := pack.ParseName(filepath.Base(f)); err == nil {
			names = append(names, name.Path())
		}
	}
	return names
}

// TestReplyOfRootLost checks that a push succeeds if only the reply for its root is lost. If
// the store stays down, the outcome is unknown.
func TestReplyOfRootLost(t *testing.T) {
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	p := newPusher(t, faulty)
	one := p.grow(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, How: remotetest.After})
	if result := p.mustPush("main", one); result.Seq != 1 {
		t.Errorf("push: %+v, want root 1", result)
	}
	two := p.grow(2, one)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { faulty.Fail(remotetest.Fault{Op: remotetest.Any, Stays: true}) }, Err: remote.ErrTemporary})
	ctx, cancel := context.WithCancel(t.Context())
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, N: 12, Do: cancel})
	_, err := p.remote.Push(ctx, p.local, PushOptions{Updates: []RefUpdate{{Name: mainRef, New: commitKeys(two)[0]}}})
	if !errors.Is(err, rootlog.ErrUnknown) || errors.Is(err, ErrNotFastForward) {
		t.Errorf("push: %v, want ErrUnknown", err)
	}
}

// stopAtRoot has a push send its two packs, and fail before its root.
func stopAtRoot(p *pusher, b *remotetest.Memory, branch string, id object.ID) {
	p.t.Helper()
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Stays: true, Err: down})
	p.reopen(faulty)
	if _, err := p.push(branch, id); !errors.Is(err, remote.ErrPermission) {
		p.t.Fatalf("push: %v, want ErrPermission", err)
	}
	if n := len(journaled(p.t, p.dir)); n != 2 {
		p.t.Fatalf("%d packs are in the journal, want 2", n)
	}
	p.reopen(b)
}

// TestResume resumes a push that was stopped before its root. Meanwhile its packs may be
// condemned, deleted or damaged.
func TestResume(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, b *remotetest.Memory, gc *collector, p *pusher)
		packs     int // sent again
	}{
		"nothing":   {func(*testing.T, *remotetest.Memory, *collector, *pusher) {}, 0},
		"condemned": {func(_ *testing.T, b *remotetest.Memory, gc *collector, _ *pusher) { gc.condemn(b.Names("packs/")...) }, 2},
		"condemned and deleted": {func(_ *testing.T, b *remotetest.Memory, gc *collector, _ *pusher) {
			gc.condemn(b.Names("packs/")...)
			for _, name := range b.Names("packs/") {
				b.Remove(name)
			}
		}, 2},
		// RESUME_AT_START: only the floor shows it.
		"delisted": {func(_ *testing.T, b *remotetest.Memory, gc *collector, _ *pusher) {
			gc.condemn(b.Names("packs/")...)
			gc.delist()
		}, 2},
		// RESUME_AT_START: late duplicates of uploads restore the packs.
		"delisted, and there again": {func(_ *testing.T, b *remotetest.Memory, gc *collector, _ *pusher) {
			late := b.Snapshot()
			gc.condemn(b.Names("packs/")...)
			gc.delist()
			now := b.Snapshot()
			b.Restore(late)

			bodies := map[string][]byte{}
			for _, name := range b.Names("packs/") {
				bodies[name] = b.Data(name)
			}
			b.Restore(now)

			for name, data := range bodies {
				b.Set(name, data)
			}
		}, 2},
		"one gone": {func(_ *testing.T, b *remotetest.Memory, _ *collector, _ *pusher) { b.Remove(b.Names("packs/")[0]) }, 1},
		"one cut": {func(_ *testing.T, b *remotetest.Memory, _ *collector, _ *pusher) {
			b.Truncate(b.Names("packs/")[1], 100)
		}, 1},
		"note damaged": {func(t *testing.T, _ *remotetest.Memory, _ *collector, p *pusher) {
			files, _ := filepath.Glob(filepath.Join(p.dir, pushFolder, "*", "*"))
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if len(data) > 50 {
					data[len(data)/2] ^= 1
				}
				if err := os.WriteFile(f, data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}, 2},
		"another branch pushed": {func(_ *testing.T, _ *remotetest.Memory, _ *collector, p *pusher) {
			p.mustPush("other", p.commit(p.tree(map[string]string{"other": noise(1, 100)}, nil)))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRemote(t)
			p := newPusher(t, b)
			one := p.grow(1)
			stopAtRoot(p, b, "main", one)
			test.meanwhile(t, b, newCollector(t, b), p)
			p.reopen(b)

			result := p.mustPush("main", one)
			if result.Packs != test.packs {
				t.Errorf("%d packs were sent, want %d", result.Packs, test.packs)
			}

			wantIntact(t, b, nil)
			if left := journaled(t, p.dir); len(left) > 0 {
				t.Errorf("left in the journal: %q", left)
			}
		})
	}
}

// TestResumeBelowFloor checks that a resumed push sends its packs again if the floor rises
// above the root where it first began, but not above the root where it resumed
// (RESUME_AT_START).
func TestResumeBelowFloor(t *testing.T) {
	b := newRemote(t)
	p, other := newPusher(t, b), newPusher(t, b)
	one := p.grow(1)
	other.mustPush("other", other.commit(other.tree(nil, nil)))
	stopAtRoot(p, b, "main", one)
	gc := newCollector(t, b)
	gc.delete("other")
	gc.condemn(gc.live()...)
	faulty := remotetest.NewFaulty(b)
	p.reopen(faulty)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: gc.delist})
	if result := p.mustPush("main", one); result.Packs != 2 {
		t.Errorf("%d packs were sent, want 2", result.Packs)
	}
	wantIntact(t, b, map[string]object.ID{"main": one})
}

// TestNodesAreThere checks that a push does not stop at nodes in live packs, because the
// chunks below them may be missing (STOP_AT_REFS).
func TestNodesAreThere(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	p.mustPush("base", one)
	gc := newCollector(t, b)
	gc.delete("base")
	gc.append(func(head *rootlog.State) (c rootlog.Change) {
		for _, pack := range head.Packs {
			if !pack.Entries[0].Key.Kind.IsNode() {
				c.Condemn = append(c.Condemn, pack.Name.Path())
			}
		}
		return c
	})
	gc.delist()
	if result := p.mustPush("main", one); result.Packs != 1 || result.Objects < 10 {
		t.Errorf("push: %+v, want 1 pack with the chunks", result)
	}
	wantIntact(t, b, map[string]object.ID{"main": one})
}

// TestResumeTwo checks that a push takes over the packs of two interrupted pushes.
func TestResumeTwo(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	stopAtRoot(p, b, "main", one)
	first, err := os.ReadDir(filepath.Join(p.dir, pushFolder))
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	// The second push does not find the journal of the first.
	hidden := filepath.Join(t.TempDir(), "hidden")
	folder := filepath.Join(p.dir, pushFolder, first[0].Name())
	if err := os.Rename(folder, hidden); err != nil {
		t.Fatal(err)
	}
	stopAtRoot(p, b, "main", p.grow(2, one))
	if err := os.Rename(hidden, folder); err != nil {
		t.Fatal(err)
	}
	p.reopen(b)
	three := p.grow(3, one)
	result := p.mustPush("main", three)
	if all := len(closure(t, p.local, commitKeys(three)...)); result.Objects > int64(all)/2 {
		t.Errorf("%d of %d objects were sent again", result.Objects, all)
	}
	wantIntact(t, b, map[string]object.ID{"main": three})
}

// TestLateRoot checks that a push succeeds if the root of an earlier, ended push arrives just
// before its own root.
func TestLateRoot(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	one := p.grow(1)
	faulty := remotetest.NewFaulty(b)
	var late []byte
	p.reopen(lateCreator{faulty, &late})
	if _, err := p.push("main", one); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	p.reopen(faulty)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { b.Set(rootlog.RootName(1), late) }})
	if result := p.mustPush("other", one); result.Packs != 0 || result.Seq != 2 {
		t.Errorf("push: %+v, want no packs and root 2", result)
	}
	wantIntact(t, b, map[string]object.ID{"main": one, "other": one})
}

// lateCreator keeps the bytes of a root instead of creating the root.
type lateCreator struct {
	remote.Backend
	late *[]byte
}

func (l lateCreator) Create(_ context.Context, _ string, data []byte) error {
	*l.late = slices.Clone(data)
	return down
}

// TestPushUnderFaults has several repositories push to a store that fails at random. No
// acknowledged push is lost, and no completed push is reported as rejected.
func TestPushUnderFaults(t *testing.T) {
	for seed := range uint64(4) {
		b := newRemote(t)
		rng := rand.New(rand.NewPCG(seed, 7))
		gc := newCollector(t, b)
		faulty := remotetest.NewFaulty(b)
		heads := map[string]object.ID{}

		var pushers []*pusher
		for range 3 {
			pushers = append(pushers, newPusher(t, b))
		}

		for i := range 40 {
			faulty.Random(seed*1000+uint64(i), remotetest.Rates{Before: 0.1, After: 0.01, Short: 0.01})
			n := rng.IntN(len(pushers))
			p, branch := pushers[n], fmt.Sprintf("b%d-%d", n, rng.IntN(2))
			if rng.IntN(4) == 0 {
				faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: 1 + rng.IntN(12), Stays: true, Err: down})
			}
			if rng.IntN(3) == 0 {
				other := fmt.Sprintf("b%d-%d", rng.IntN(3), rng.IntN(2))
				if _, ok := heads[other]; ok && other != branch {
					meanwhile(faulty, func() {
						gc.delete(other)
						delete(heads, other)
						gc.collect()
					})
				}
			}

			var parents []object.ID
			if id, ok := heads[branch]; ok {
				parents = []object.ID{id}
			}
			next := p.grow(rng.IntN(1000), parents...)
			var err error
			if p.remote, err = openTest(t, faulty, p.dir); err == nil {
				_, err = p.push(branch, next)
			}
			faulty.Heal()
			if errors.Is(err, ErrNotFastForward) {
				t.Fatalf("seed %d, push %d: rejected: %v", seed, i, err)
			}

			now := gc.head().Refs["refs/heads/"+branch].ID
			if err == nil && now != next || err != nil && now != heads[branch] && now != next {
				t.Fatalf("seed %d, push %d: %v, and the branch is at %s", seed, i, err, now)
			}
			if err != nil && !errors.Is(err, remote.ErrPermission) && !errors.Is(err, rootlog.ErrUnknown) && !errors.Is(err, remote.ErrTemporary) {
				t.Fatalf("seed %d, push %d: %v", seed, i, err)
			}

			if now != (object.ID{}) {
				heads[branch] = now
			}
			if rng.IntN(8) == 0 {
				gc.delist()
			}
		}

		wantIntact(t, b, heads)
	}
}
