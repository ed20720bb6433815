package collect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestCollectDamaged checks that a collection changes nothing if a reachable object or an
// index file is damaged or missing.
func TestCollectDamaged(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, start)
	p.MustPush("main", p.MakeGrown(1))
	p.MustPush("other", p.MakeMany(2, 460))
	transfertest.NewCollector(t, start).DeleteBranch("other")

	var node, chunk string
	for _, p := range transfertest.NewCollector(t, start).Head().Packs {
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
		"no longer named":  func(b *remotetest.Memory) { transfertest.NewCollector(t, b).MarkFiles(chunk) },
		"index file gone":  func(b *remotetest.Memory) { b.Remove(b.Names("index/")[0]) },
		"index file wrong": func(b *remotetest.Memory) { b.Damage(b.Names("index/")[0], 300) },
	} {
		b := remotetest.NewMemory()
		b.Restore(before)
		damage(b)
		names, head := len(transfertest.Files(b)), transfertest.NewCollector(t, b).Head().Seq
		b.ResetCounts()
		_, err := transfertest.CollectIn(t, b, nil, transfertest.AtOnce)
		if !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("%s: %v, want damage", what, err)
		}
		if len(transfertest.Files(b)) != names || transfertest.NewCollector(t, b).Head().Seq != head || b.Calls(remotetest.Delete)+b.Calls(remotetest.Put) > 0 {
			t.Errorf("%s: the collection changed the remote", what)
		}

		var needed *collect.NeededError
		if !strings.HasPrefix(what, "index") && !errors.As(err, &needed) {
			t.Errorf("%s: %v, want a NeededError", what, err)
		}
	}

	// Nodes in the local repository are not read from the remote.
	b := remotetest.NewMemory()
	b.Restore(before)
	b.Damage(node, 40)
	if _, err := transfertest.CollectIn(t, b, p.Local, collect.Options{MaxWaste: 1}); err != nil {
		t.Error(err)
	}
}

// TestCollectCopiesDamaged checks that a collection does not condemn a pack if a chunk to
// copy from it is damaged.
func TestCollectCopiesDamaged(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)

	content := map[string]string{}
	for i := range 30 {
		content[fmt.Sprint("f", i)] = objecttest.Noise(i, 1000)
	}
	p.MustPush("both", p.MakeCommit(p.MakeTree(content, nil)))
	p.MustPush("main", p.MakeCommit(p.MakeTree(map[string]string{"f1": content["f1"]}, nil)))
	gc := transfertest.NewCollector(t, b)
	gc.DeleteBranch("both")

	head := gc.Head()
	for _, packed := range head.Packs {
		for _, e := range packed.Entries {
			if e.Key.ID == object.Sum([]byte(content["f1"])) {
				b.Damage(packed.Name.Path(), int(e.Offset+e.Stored/2))
			}
		}
	}

	b.ResetCounts()
	_, err := transfertest.CollectIn(t, b, nil, transfertest.AtOnce)
	var needed *collect.NeededError
	if !errors.As(err, &needed) || !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("collection: %v, want a NeededError", err)
	}
	if gc.Head().Seq != head.Seq || b.Calls(remotetest.Delete) > 0 {
		t.Error("the collection condemned or deleted something")
	}
}

// TestCollectInterrupted kills a collection at each of its calls, before or after the call
// takes effect. The remote stays intact, and the next collections complete the work.
func TestCollectInterrupted(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, start)
	keep := p.MakeGrown(1, p.MakeMany(1, 460))
	p.MustPush("keep", keep)
	p.MustPush("large", p.MakeMany(2, 460))
	p.MustPush("small", p.MakeGrown(3))
	gc := transfertest.NewCollector(t, start)
	gc.DeleteBranch("large")
	gc.DeleteBranch("small")
	before := start.Snapshot()
	step := 1
	if testing.Short() {
		step = 6
	}
	interruptEach(t, before, transfertest.AtOnce, func(n int) int { return n + step + n/12 }, func(b *remotetest.Memory, _ bool) {
		transfertest.WantIntact(t, b, map[string]object.ID{"keep": keep})
	})
}

// interruptEach restores before and kills a collection at call n, for each n from 1 on that
// next gives. Then it lets three collections complete the work. It calls check after the kill
// and at the end.
func interruptEach(t *testing.T, before remotetest.Snapshot, o collect.Options, next func(n int) int, check func(b *remotetest.Memory, ended bool)) {
	t.Helper()
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		for n := 1; ; n = next(n) {
			b := remotetest.NewMemory()
			b.Restore(before)
			faulty := remotetest.NewFaulty(b)
			faulty.Fail(remotetest.Fault{N: n, How: how, Err: remote.ErrPermission})
			faulty.Fail(remotetest.Fault{N: n + 1, Stays: true, Err: remote.ErrPermission})
			r, err := transfertest.OpenTest(t, faulty, t.TempDir())
			if err == nil {
				var c *collect.Collection
				if c, err = collect.PlanGarbage(t.Context(), r, nil, o); err == nil {
					err = c.Apply(t.Context())
					c.Close()
				}
			}
			if faulty.Calls(remotetest.Any) < n {
				if err != nil || n < 20 {
					t.Errorf("the collection ended before call %d: %v", n, err)
				}
				break
			}

			check(b, false)
			for range 3 {
				transfertest.MustCollect(t, b, o)
			}
			transfertest.WantNoGarbage(t, b)
			check(b, true)
			if t.Failed() {
				t.Fatalf("killed at call %d, %v", n, how)
			}
		}
	}
}

// TestLostRoots checks that a check reports a remote without roots, and that a collection
// keeps its packs. If kist.json is missing, too, Open reports damage.
func TestLostRoots(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeMany(1, 600))
	for _, name := range b.Names("root/") {
		b.Remove(name)
	}

	if found := transfertest.CheckProblems(t, b, false); len(found) != 1 || !strings.Contains(found[0], "there are packs, but no roots") {
		t.Errorf("problems %q, want only missing roots", found)
	}
	names := len(transfertest.Files(b))
	for range 3 {
		if st := transfertest.MustCollect(t, b, transfertest.AtOnce); st.Condemned+st.Deleted > 0 {
			t.Errorf("collection without roots: %+v", st)
		}
	}
	if len(transfertest.Files(b)) != names {
		t.Errorf("%d files are left of %d", len(transfertest.Files(b)), names)
	}

	b.Remove("kist.json")
	var damage *object.DamageError
	if _, err := transfertest.OpenTest(t, b, t.TempDir()); !errors.As(err, &damage) || damage.Name != "kist.json" {
		t.Errorf("%v, want damage of kist.json", err)
	}
}

// TestNoRootsYet checks that a remote before its first push has no problems.
func TestNoRootsYet(t *testing.T) {
	t.Parallel()
	if found := transfertest.CheckProblems(t, transfertest.NewRemote(t), true); len(found) > 0 {
		t.Errorf("problems %q, want none", found)
	}
}
