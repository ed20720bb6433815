package transfer_test

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
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestCrash ends a push at each call to the remote, before or after the call takes effect.
// The branch is then old or new. The next push completes, and sends no finished pack again.
func TestCrash(t *testing.T) {
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		for n := 1; ; n++ {
			b := transfertest.NewRemote(t)
			setup := transfertest.NewPusher(t, b)
			one := setup.MakeGrown(1)
			setup.MustPush("main", one)

			faulty := remotetest.NewFaulty(b)
			p := &transfertest.Pusher{Maker: setup.Maker, Local: setup.Local, Dir: t.TempDir()}
			faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: n, How: how})
			faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: n + 1, Stays: true, Err: transfertest.ErrDown})
			two := p.MakeGrown(2, one)
			var failed error
			if r, err := transfertest.OpenTest(t, faulty, p.Dir); err == nil {
				p.Remote = r
				_, failed = p.PushBranch("main", two)
			} else {
				failed = err
			}
			head := transfertest.NewCollector(t, b).Head().Refs[transfertest.MainRef].ID
			if head != one && head != two {
				t.Fatalf("call %d: main is at %s", n, head)
			}
			transfertest.WantIntact(t, b, map[string]object.ID{"main": head})
			finished := len(journaled(t, p.Dir))
			b.ResetCounts()
			p.Reopen(b)
			result, err := p.PushBranch("main", two)
			if err != nil {
				t.Fatalf("call %d: the next push: %v", n, err)
			}
			if head == one && result.Packs+finished != 2 || head == two && result.Packs > 0 {
				t.Errorf("call %d: %d packs were finished, the next push sent %d", n, finished, result.Packs)
			}
			transfertest.WantIntact(t, b, map[string]object.ID{"main": two})
			if left := journaled(t, p.Dir); len(left) > 0 && head == one {
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
	files, err := filepath.Glob(filepath.Join(dir, transfer.PushFolder, "*", "*"))
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
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	p := transfertest.NewPusher(t, faulty)
	one := p.MakeGrown(1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, How: remotetest.After})
	if result := p.MustPush("main", one); result.Seq != 1 {
		t.Errorf("push: %+v, want root 1", result)
	}
	two := p.MakeGrown(2, one)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { faulty.Fail(remotetest.Fault{Op: remotetest.Any, Stays: true}) }, Err: remote.ErrTemporary})
	ctx, cancel := context.WithCancel(t.Context())
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, N: 12, Do: cancel})
	_, err := p.Remote.Push(ctx, p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: transfertest.MainRef, New: objecttest.CommitKeys(two)[0]}}})
	if !errors.Is(err, rootlog.ErrUnknown) || errors.Is(err, transfer.ErrNotFastForward) {
		t.Errorf("push: %v, want ErrUnknown", err)
	}
}

// stopAtRoot has a push send its two packs, and fail before its root.
func stopAtRoot(p *transfertest.Pusher, b *remotetest.Memory, branch string, id object.ID) {
	p.T.Helper()
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Stays: true, Err: transfertest.ErrDown})
	p.Reopen(faulty)
	if _, err := p.PushBranch(branch, id); !errors.Is(err, remote.ErrPermission) {
		p.T.Fatalf("push: %v, want ErrPermission", err)
	}
	if n := len(journaled(p.T, p.Dir)); n != 2 {
		p.T.Fatalf("%d packs are in the journal, want 2", n)
	}
	p.Reopen(b)
}

// TestResume resumes a push that was stopped before its root. Meanwhile its packs may be
// condemned, deleted or damaged.
func TestResume(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, b *remotetest.Memory, gc *transfertest.Collector, p *transfertest.Pusher)
		packs     int // sent again
	}{
		"nothing": {func(*testing.T, *remotetest.Memory, *transfertest.Collector, *transfertest.Pusher) {}, 0},
		"condemned": {func(_ *testing.T, b *remotetest.Memory, gc *transfertest.Collector, _ *transfertest.Pusher) {
			gc.MarkFiles(b.Names("packs/")...)
		}, 2},
		"condemned and deleted": {func(_ *testing.T, b *remotetest.Memory, gc *transfertest.Collector, _ *transfertest.Pusher) {
			gc.MarkFiles(b.Names("packs/")...)
			for _, name := range b.Names("packs/") {
				b.Remove(name)
			}
		}, 2},
		// RESUME_AT_START: only the floor shows it.
		"delisted": {func(_ *testing.T, b *remotetest.Memory, gc *transfertest.Collector, _ *transfertest.Pusher) {
			gc.MarkFiles(b.Names("packs/")...)
			gc.ForgetMarked()
		}, 2},
		// RESUME_AT_START: late duplicates of uploads restore the packs.
		"delisted, and there again": {func(_ *testing.T, b *remotetest.Memory, gc *transfertest.Collector, _ *transfertest.Pusher) {
			late := b.Snapshot()
			gc.MarkFiles(b.Names("packs/")...)
			gc.ForgetMarked()
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
		"one gone": {func(_ *testing.T, b *remotetest.Memory, _ *transfertest.Collector, _ *transfertest.Pusher) {
			b.Remove(b.Names("packs/")[0])
		}, 1},
		"one cut": {func(_ *testing.T, b *remotetest.Memory, _ *transfertest.Collector, _ *transfertest.Pusher) {
			b.Truncate(b.Names("packs/")[1], 100)
		}, 1},
		"note damaged": {func(t *testing.T, _ *remotetest.Memory, _ *transfertest.Collector, p *transfertest.Pusher) {
			files, _ := filepath.Glob(filepath.Join(p.Dir, transfer.PushFolder, "*", "*"))
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
		"another branch pushed": {func(_ *testing.T, _ *remotetest.Memory, _ *transfertest.Collector, p *transfertest.Pusher) {
			p.MustPush("other", p.MakeCommit(p.MakeTree(map[string]string{"other": objecttest.Noise(1, 100)}, nil)))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := transfertest.NewRemote(t)
			p := transfertest.NewPusher(t, b)
			one := p.MakeGrown(1)
			stopAtRoot(p, b, "main", one)
			test.meanwhile(t, b, transfertest.NewCollector(t, b), p)
			p.Reopen(b)

			result := p.MustPush("main", one)
			if result.Packs != test.packs {
				t.Errorf("%d packs were sent, want %d", result.Packs, test.packs)
			}

			transfertest.WantIntact(t, b, nil)
			if left := journaled(t, p.Dir); len(left) > 0 {
				t.Errorf("left in the journal: %q", left)
			}
		})
	}
}

// TestResumeBelowFloor checks that a resumed push sends its packs again if the floor rises
// above the root where it first began, but not above the root where it resumed
// (RESUME_AT_START).
func TestResumeBelowFloor(t *testing.T) {
	b := transfertest.NewRemote(t)
	p, other := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	other.MustPush("other", other.MakeCommit(other.MakeTree(nil, nil)))
	stopAtRoot(p, b, "main", one)
	gc := transfertest.NewCollector(t, b)
	gc.DeleteBranch("other")
	gc.MarkFiles(gc.LivePacks()...)
	faulty := remotetest.NewFaulty(b)
	p.Reopen(faulty)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: gc.ForgetMarked})
	if result := p.MustPush("main", one); result.Packs != 2 {
		t.Errorf("%d packs were sent, want 2", result.Packs)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
}

// TestNodesAreThere checks that a push does not stop at nodes in live packs, because the
// chunks below them may be missing (STOP_AT_REFS).
func TestNodesAreThere(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("base", one)
	gc := transfertest.NewCollector(t, b)
	gc.DeleteBranch("base")
	gc.AppendRoot(func(head *rootlog.State) (c rootlog.Change) {
		for _, pack := range head.Packs {
			if !pack.Entries[0].Key.Kind.IsNode() {
				c.Condemn = append(c.Condemn, pack.Name.Path())
			}
		}
		return c
	})
	gc.ForgetMarked()
	if result := p.MustPush("main", one); result.Packs != 1 || result.Objects < 10 {
		t.Errorf("push: %+v, want 1 pack with the chunks", result)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one})
}

// TestResumeTwo checks that a push takes over the packs of two interrupted pushes.
func TestResumeTwo(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	stopAtRoot(p, b, "main", one)
	first, err := os.ReadDir(filepath.Join(p.Dir, transfer.PushFolder))
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	// The second push does not find the journal of the first.
	hidden := filepath.Join(t.TempDir(), "hidden")
	folder := filepath.Join(p.Dir, transfer.PushFolder, first[0].Name())
	if err := os.Rename(folder, hidden); err != nil {
		t.Fatal(err)
	}
	stopAtRoot(p, b, "main", p.MakeGrown(2, one))
	if err := os.Rename(hidden, folder); err != nil {
		t.Fatal(err)
	}
	p.Reopen(b)
	three := p.MakeGrown(3, one)
	result := p.MustPush("main", three)
	if all := len(objecttest.Closure(t, p.Local, objecttest.CommitKeys(three)...)); result.Objects > int64(all)/2 {
		t.Errorf("%d of %d objects were sent again", result.Objects, all)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": three})
}

// TestLateRoot checks that a push succeeds if the root of an earlier, ended push arrives just
// before its own root.
func TestLateRoot(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	faulty := remotetest.NewFaulty(b)
	var late []byte
	p.Reopen(lateCreator{faulty, &late})
	if _, err := p.PushBranch("main", one); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	p.Reopen(faulty)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { b.Set(rootlog.RootName(1), late) }})
	if result := p.MustPush("other", one); result.Packs != 0 || result.Seq != 2 {
		t.Errorf("push: %+v, want no packs and root 2", result)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": one, "other": one})
}

// lateCreator keeps the bytes of a root instead of creating the root.
type lateCreator struct {
	remote.Backend
	late *[]byte
}

func (l lateCreator) Create(_ context.Context, _ string, data []byte) error {
	*l.late = slices.Clone(data)
	return transfertest.ErrDown
}

// TestPushUnderFaults has several repositories push to a store that fails at random. No
// acknowledged push is lost, and no completed push is reported as rejected.
func TestPushUnderFaults(t *testing.T) {
	for seed := range uint64(4) {
		b := transfertest.NewRemote(t)
		rng := rand.New(rand.NewPCG(seed, 7))
		gc := transfertest.NewCollector(t, b)
		faulty := remotetest.NewFaulty(b)
		heads := map[string]object.ID{}

		var pushers []*transfertest.Pusher
		for range 3 {
			pushers = append(pushers, transfertest.NewPusher(t, b))
		}

		for i := range 40 {
			faulty.Random(seed*1000+uint64(i), remotetest.Rates{Before: 0.1, After: 0.01, Short: 0.01})
			n := rng.IntN(len(pushers))
			p, branch := pushers[n], fmt.Sprintf("b%d-%d", n, rng.IntN(2))
			if rng.IntN(4) == 0 {
				faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: 1 + rng.IntN(12), Stays: true, Err: transfertest.ErrDown})
			}
			if rng.IntN(3) == 0 {
				other := fmt.Sprintf("b%d-%d", rng.IntN(3), rng.IntN(2))
				if _, ok := heads[other]; ok && other != branch {
					meanwhile(faulty, func() {
						gc.DeleteBranch(other)
						delete(heads, other)
						gc.MarkUnreached()
					})
				}
			}

			var parents []object.ID
			if id, ok := heads[branch]; ok {
				parents = []object.ID{id}
			}
			next := p.MakeGrown(rng.IntN(1000), parents...)
			var err error
			if p.Remote, err = transfertest.OpenTest(t, faulty, p.Dir); err == nil {
				_, err = p.PushBranch(branch, next)
			}
			faulty.Heal()
			if errors.Is(err, transfer.ErrNotFastForward) {
				t.Fatalf("seed %d, push %d: rejected: %v", seed, i, err)
			}

			now := gc.Head().Refs["refs/heads/"+branch].ID
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
				gc.ForgetMarked()
			}
		}

		transfertest.WantIntact(t, b, heads)
	}
}
