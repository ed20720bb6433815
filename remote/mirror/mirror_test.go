package mirror_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/mirror"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// copyTo copies between two stores, as a process does whose state is in dir.
func copyTo(t testing.TB, from, to remote.Backend, dir string, o mirror.Options) (*mirror.Result, error) {
	t.Helper()
	source, err := transfertest.OpenTest(t, from, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := transfertest.OpenTest(t, to, dir)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	return mirror.Copy(t.Context(), source, target, o)
}

func mustCopy(t testing.TB, from, to remote.Backend, dir string, o mirror.Options) *mirror.Result {
	t.Helper()
	result, err := copyTo(t, from, to, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// compare compares two stores.
func compare(t testing.TB, from, to remote.Backend, o mirror.Options) *mirror.Comparison {
	t.Helper()
	source, err := transfertest.OpenTest(t, from, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := transfertest.OpenTest(t, to, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	c, err := mirror.Compare(t.Context(), source, target, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type ids = map[string]object.ID

// TestCopy copies a large remote, and then new commits. Both may be encrypted, with keys of their own.
func TestCopy(t *testing.T) {
	for _, test := range []struct{ from, to bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("encrypted %t to %t", test.from, test.to), func(t *testing.T) {
			store := func(encrypted bool) *remotetest.Memory {
				if encrypted {
					return transfertest.NewEncrypted(t)
				}
				return transfertest.NewRemote(t)
			}
			a, b, dir := store(test.from), store(test.to), t.TempDir()
			p := transfertest.NewPusher(t, a)
			one := p.MakeMany(1, 300)
			if test.from == test.to {
				one = p.MakeLarge()
			}
			p.MustPush("main", one)

			result := mustCopy(t, a, b, dir, mirror.Options{})
			transfertest.WantIntact(t, b, ids{"main": one})
			if packs := len(transfertest.NewCollector(t, a).LivePacks()); result.WholePacks != packs && !test.to || result.WholePacks == 0 && test.from == test.to {
				t.Errorf("%d of %d packs travelled as they are", result.WholePacks, packs)
			}
			if c := compare(t, a, b, mirror.Options{}); !c.Same() || c.Objects < 30 {
				t.Errorf("the comparison found %+v", c)
			}

			b.ResetCounts()
			if again := mustCopy(t, a, b, dir, mirror.Options{}); again.Objects != 0 || b.Calls(remotetest.Put) != 0 || b.Calls(remotetest.Create) != 0 {
				t.Errorf("the second copy sent %+v", again.PushResult)
			}
			two := p.MakeGrown(1, one)
			p.MustPush("main", two)
			p.MustPush("topic", one)
			if c := compare(t, a, b, mirror.Options{}); c.Same() || len(c.Refs) != 2 || c.Refs[0] != (mirror.Difference{Name: "refs/heads/main", From: two, To: one}) || len(c.Missing) == 0 {
				t.Errorf("the comparison found %+v, want two refs and missing objects", c)
			}
			if more := mustCopy(t, a, b, dir, mirror.Options{}); more.Objects == 0 || more.Objects > 30 {
				t.Errorf("the third copy sent %d objects, want only new ones", more.Objects)
			}
			transfertest.WantIntact(t, b, ids{"main": two, "topic": one})
		})
	}
}

// TestGarbage checks that a pack with much garbage does not travel as it is, and that the target gets only needed objects.
func TestGarbage(t *testing.T) {
	a, b := transfertest.NewRemote(t), transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, a)
	p.KeepSmall = true
	one, two := p.MakeMany(1, 50), p.MakeMany(2, 400)
	if _, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: []transfer.RefUpdate{
		{Name: "refs/heads/main", New: objecttest.CommitKeys(one)[0]}, {Name: "refs/heads/big", New: objecttest.CommitKeys(two)[0]},
	}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	result := mustCopy(t, a, b, dir, mirror.Options{Refs: []string{"refs/heads/main"}})
	if result.WholePacks != 0 || result.Objects != 52 {
		t.Errorf("%d packs travelled as they are, %d objects; want 0 and 52", result.WholePacks, result.Objects)
	}
	transfertest.WantIntact(t, b, ids{"main": one})
	transfertest.WantNoGarbage(t, b)

	// The rest is most of the packs.
	if result := mustCopy(t, a, b, dir, mirror.Options{}); result.WholePacks == 0 {
		t.Error("no pack travelled as it is")
	}
	transfertest.WantIntact(t, b, ids{"main": one, "big": two})
	_, err := copyTo(t, a, b, dir, mirror.Options{Refs: []string{"refs/heads/absent"}})
	if !errors.Is(err, mirror.ErrNoRef) {
		t.Errorf("copy of an absent branch: error %v", err)
	}
}

// TestMirror checks that a copy moves refs only as a push does, unless it may force, and deletes only if it may.
func TestMirror(t *testing.T) {
	a, b, dir := transfertest.NewRemote(t), transfertest.NewRemote(t), t.TempDir()
	p, q := transfertest.NewPusher(t, a), transfertest.NewPusher(t, b)
	main, theirs := p.MakeGrown(1), q.MakeGrown(2)
	p.MustPush("main", main)
	q.MustPush("main", theirs)
	q.MustPush("own", theirs)

	if _, err := copyTo(t, a, b, dir, mirror.Options{}); !errors.Is(err, transfer.ErrNotFastForward) {
		t.Errorf("copy over another branch: error %v", err)
	}
	transfertest.WantIntact(t, b, ids{"main": theirs, "own": theirs})
	mustCopy(t, a, b, dir, mirror.Options{Force: true})
	transfertest.WantIntact(t, b, ids{"main": main, "own": theirs})
	planned := mustCopy(t, a, b, dir, mirror.Options{Force: true, Prune: true, DryRun: true})
	if len(planned.Refs) != 2 || planned.Refs[1].Status != transfer.StatusDeleted {
		t.Errorf("the plan is %+v", planned.Refs)
	}
	transfertest.WantIntact(t, b, ids{"main": main, "own": theirs})
	mustCopy(t, a, b, dir, mirror.Options{Force: true, Prune: true})
	transfertest.WantIntact(t, b, ids{"main": main})
	if c := compare(t, a, b, mirror.Options{Prune: true}); !c.Same() {
		t.Errorf("the comparison found %+v", c)
	}
}

// TestRecords checks that holds and expirations travel, and that nothing expired does.
func TestRecords(t *testing.T) {
	a, b, dir := transfertest.NewRemote(t), transfertest.NewRemote(t), t.TempDir()
	s := transfertest.NewSide(t, a)
	one := s.CommitFile("main", 1)
	two := s.CommitFile("main", 2, one)
	three := s.CommitFile("main", 3, two)
	s.Expire(one)
	s.Hold(two)
	s.MustPush("main")
	transfertest.MustCollect(t, a, collect.Options{Grace: collect.DefaultGrace})

	mustCopy(t, a, b, dir, mirror.Options{})
	transfertest.WantIntact(t, b, ids{"main": three})
	records := transfertest.NewCollector(t, b).Head().Records
	for kind, id := range map[record.Kind]object.ID{record.Expire: one, record.Hold: two} {
		if r, ok := records.Get(kind, objecttest.CommitKeys(id)[0]); !ok || !r.On {
			t.Errorf("the target has %+v, %t, want a record of kind %v", r, ok, kind)
		}
	}
	if c := compare(t, a, b, mirror.Options{}); !c.Same() {
		t.Errorf("the comparison found %+v", c)
	}
}

// TestStopped ends a copy at each call to the target. The target is then old or new, and the next copy completes.
func TestStopped(t *testing.T) {
	a := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, a)
	p.KeepSmall = true
	one := p.MakeMany(1, 300)
	p.MustPush("main", one)
	for n := 1; ; n++ {
		b, dir := transfertest.NewRemote(t), t.TempDir()
		faulty := remotetest.NewFaulty(b)
		faulty.Fail(remotetest.Fault{Op: remotetest.Any, N: n, Stays: true, Err: transfertest.ErrDown})
		_, failed := copyTo(t, a, faulty, dir, mirror.Options{Jobs: 1})
		if head := transfertest.NewCollector(t, b).Head().Refs[transfertest.MainRef].ID; head != one && !head.IsZero() {
			t.Fatalf("call %d: main is at %s", n, head)
		}
		sent := len(b.Names("packs/"))
		b.ResetCounts()
		mustCopy(t, a, b, dir, mirror.Options{Jobs: 1})
		transfertest.WantIntact(t, b, ids{"main": one})
		if packs := len(b.Names("packs/")); failed != nil && sent > 0 && packs > 2 {
			t.Errorf("call %d: %d packs were sent, and %d are there after the next copy", n, sent, packs)
		}
		if failed == nil {
			if n < 5 {
				t.Errorf("only %d calls", n-1)
			}
			return
		}
	}
}

// TestDamage checks that damage of the source stops a copy, with the name of the object, and never reaches the target.
func TestDamage(t *testing.T) {
	a := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, a)
	p.KeepSmall = true
	p.MustPush("main", p.MakeMany(1, 300))
	for _, name := range a.Names("packs/") {
		good := a.Data(name)
		for _, off := range []int{40, len(good) / 2, len(good) - 10} {
			a.Damage(name, off)
			b := transfertest.NewRemote(t)
			_, err := copyTo(t, a, b, t.TempDir(), mirror.Options{})
			if off == 40 && !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, remote.ErrDamaged) {
				t.Errorf("%s, byte %d: error %v, want damage", name, off, err)
			}
			if err == nil { // only the index of the pack, which travels object by object
				transfertest.WantIntact(t, b, nil)
			} else if head := transfertest.NewCollector(t, b).Head(); head.Seq != 0 {
				t.Errorf("%s, byte %d: the target has root %d", name, off, head.Seq)
			}
			a.Set(name, good)
		}
	}
}
