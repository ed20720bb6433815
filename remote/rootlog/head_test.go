package rootlog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Head finds the head in logs of every length up to 24, from every earlier root.
func TestHead(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	positions := []Position{mustHead(t, l, nil).Position()}
	for n := range 24 {
		for from, p := range positions {
			if s := mustHead(t, l, &p); s.Seq != uint64(n) || s.Position() != positions[n] || s.Refs["refs/heads/main"] != mainAt(n) {
				t.Fatalf("%d roots, from root %d: head is root %d", n, from, s.Seq)
			}
		}
		if s := mustHead(t, l, nil); s.Seq != uint64(n) {
			t.Fatalf("%d roots: head is root %d", n, s.Seq)
		}
		s := mustHead(t, l, &positions[n])
		positions = append(positions, mustAppend(t, l, s, move("main", n, n+1)).Position())
	}
}

// mainAt returns the value of main after n roots.
func mainAt(n int) object.Key {
	if n == 0 {
		return object.Key{}
	}
	return commit(n)
}

func TestHeadRequests(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	grow(t, l, 30)

	for _, test := range []struct {
		behind uint64
		most   int
	}{{0, 2}, {1, 3}, {2, 5}, {5, 7}, {29, 12}, {30, 12}} {
		seq := 30 - test.behind
		at := Position{Hash: l.id.Hash}
		if seq > 0 {
			r, err := l.At(ctx, seq)
			if err != nil {
				t.Fatal(err)
			}
			at = r.Position()
		}

		m.ResetCounts()
		mustHead(t, l, &at)
		if n := m.Calls(remotetest.Any); n > test.most {
			t.Errorf("%d roots behind: %d requests, want at most %d", test.behind, n, test.most)
		}
	}

	m.ResetCounts()
	mustHead(t, l, nil)
	if n := m.Calls(remotetest.List); n != 1 {
		t.Errorf("first contact: %d lists, want 1", n)
	}
	if n := m.Calls(remotetest.Any); n > 5 {
		t.Errorf("first contact: %d requests, want at most 5", n)
	}
}

// Head finds the head although a list misses roots, has deleted roots or other names.
func TestFirstContactDoesNotTrustLists(t *testing.T) {
	m := remotetest.NewMemory()
	grow(t, newLog(t, m), 20)
	for _, hidden := range [][]string{
		{RootName(20)},
		{RootName(13), RootName(14), RootName(15), RootName(16), RootName(17), RootName(18), RootName(19), RootName(20)},
		{RootFolder},
	} {
		f := remotetest.NewFaulty(m)
		f.Hide(hidden...)
		if s := mustHead(t, newLog(t, f), nil); s.Seq != 20 {
			t.Errorf("list without %q: head is root %d, want 20", hidden, s.Seq)
		}
	}
	m.Set("root/readme.txt", []byte("hello"))
	m.Set("root/7", []byte("x"))
	if s := mustHead(t, newLog(t, m), nil); s.Seq != 20 {
		t.Errorf("list with other names: head is root %d, want 20", s.Seq)
	}
	f := remotetest.NewFaulty(m) // the list has a deleted root
	f.Fail(remotetest.Fault{Op: remotetest.Get, Name: RootName(20), Err: remote.ErrNotFound, Stays: true})
	if s := mustHead(t, newLog(t, f), nil); s.Seq != 19 {
		t.Errorf("list with a deleted root: head is root %d, want 19", s.Seq)
	}
}

func TestRollback(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	old := grow(t, l, 3)
	backup := m.Snapshot()
	seen := grow(t, l, 2)
	m.Restore(backup)

	emptied := false
	check := func(remembered, found *Position) {
		t.Helper()
		m.ResetCounts()
		_, err := l.Head(ctx, remembered)
		var rollback *RollbackError
		if !errors.As(err, &rollback) || !errors.Is(err, ErrRollback) || rollback.Remembered != *remembered {
			t.Fatalf("error %v, want a RollbackError", err)
		}
		if (found == nil) != (rollback.Found == nil) || found != nil && *found != *rollback.Found {
			t.Errorf("found %v, want %v", rollback.Found, found)
		}
		if rollback.Emptied != emptied {
			t.Errorf("emptied = %t, want %t", rollback.Emptied, emptied)
		}
		if m.Calls(remotetest.Create)+m.Calls(remotetest.Put) > 0 {
			t.Error("Head wrote to the store")
		}
	}
	at := seen.Position()
	check(&at, nil)
	mustHead(t, l, &Position{old.Seq, old.Hash})

	// A writer that did not see the lost roots appends to the old head: a fork.
	fork := mustAppend(t, l, old, move("main", 3, 7))
	fork = mustAppend(t, l, fork, move("main", 7, 8))
	other := fork.Position()
	check(&at, &other)

	// The remote is replaced by another.
	m.Restore(remotetest.NewMemory().Snapshot())
	emptied = true
	check(&at, nil)
	emptied = false
	id, err := Init(ctx, m, repositoryID, chunker, newRandom("other"))
	if err != nil {
		t.Fatal(err)
	}
	check(&Position{Hash: l.id.Hash}, &Position{Hash: id.Hash})
}

// Head reports a root that does not follow the root before it as damaged. Its writer
// did not notice that the remote was restored from a copy.
func TestChain(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := grow(t, l, 3)
	backup := m.Snapshot()
	late := mustAppend(t, l, s, move("main", 3, 4))
	m.Restore(backup)
	other := mustAppend(t, l, s, move("main", 3, 5))
	mustAppend(t, l, late, move("main", 4, 6))
	at := other.Position()
	_, err := l.Head(ctx, &at)
	wantDamage(t, err, RootName(5))
	_, err = l.Head(ctx, nil)
	wantDamage(t, err, RootName(5))
}

func TestKistJSONIsPartOfTheChain(t *testing.T) {
	m := remotetest.NewMemory()
	grow(t, newLog(t, m), 20)
	m.Set(IdentityName, append(m.Data(IdentityName), '\n'))
	_, err := newLog(t, m).Head(ctx, nil)
	wantDamage(t, err, IdentityName)
}

func TestDamagedRoots(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(m *remotetest.Memory, name string)
	}{
		{"flipped", func(m *remotetest.Memory, name string) { m.Damage(name, 60) }},
		{"cut", func(m *remotetest.Memory, name string) { m.Truncate(name, 70) }},
		{"empty", func(m *remotetest.Memory, name string) { m.Truncate(name, 0) }},
		{"too long", func(m *remotetest.Memory, name string) { m.Set(name, make([]byte, maxRootSize+5)) }},
		{"another root", func(m *remotetest.Memory, name string) { m.Set(name, m.Data(RootName(2))) }},
	} {
		t.Run(damage.name, func(t *testing.T) {
			m := remotetest.NewMemory()
			l := newLog(t, m)
			four := grow(t, l, 4).Position()
			ten := grow(t, l, 6).Position()
			damage.do(m, RootName(7)) // the search skips it
			mustHead(t, l, &four)

			if s := mustHead(t, l, nil); s.Position() != ten {
				t.Errorf("head is root %d, want 10", s.Seq)
			}

			backup := m.Snapshot()
			for _, seq := range []uint64{9, 10} {
				m.Restore(backup)
				damage.do(m, RootName(seq))
				_, err := l.Head(ctx, &four)
				wantDamage(t, err, RootName(seq))
				_, err = l.Head(ctx, nil)
				wantDamage(t, err, RootName(seq))
			}

			_, err := l.Head(ctx, &ten)
			wantDamage(t, err, RootName(10))
			m.Restore(backup)
			damage.do(m, RootName(4))
			_, err = l.Head(ctx, &four)
			wantDamage(t, err, RootName(4))
		})
	}
}

// Head does not take a root for absent if the store reports damage or does not answer.
func TestHeadWithoutAnswers(t *testing.T) {
	m := remotetest.NewMemory()
	at := grow(t, newLog(t, m), 5).Position()
	for _, test := range []struct {
		kind   error
		damage bool
	}{{remote.ErrDamaged, true}, {remote.ErrTemporary, false}, {remote.ErrPermission, false}} {
		for _, n := range []uint64{5, 6} {
			f := remotetest.NewFaulty(m)
			f.Fail(remotetest.Fault{Op: remotetest.Get, Name: RootName(n), Err: test.kind, Stays: true})
			_, err := newLog(t, f).Head(ctx, &at)
			if test.damage {
				wantDamage(t, err, RootName(n))
			} else if !errors.Is(err, test.kind) {
				t.Errorf("root %d: error %v, want %v", n, err, test.kind)
			}
		}
	}
}

// Head reads a root again if its bytes were damaged in transit.
func TestDamagedInTransit(t *testing.T) {
	m := remotetest.NewMemory()
	at := grow(t, newLog(t, m), 5).Position()
	f := remotetest.NewFaulty(m)
	intact := m.Data(RootName(5))
	m.Damage(RootName(5), 60)
	f.Fail(remotetest.Fault{Op: remotetest.Get, Name: RootName(5), N: 2, Do: func() { m.Set(RootName(5), intact) }})
	mustHead(t, newLog(t, f), &at)
}

func TestEndlessRoots(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	at := grow(t, l, 2).Position()
	_, err := Open(endless{m}, l.id, l.o).Head(ctx, &at)
	wantDamage(t, err, RootFolder)
	if _, err := l.Head(ctx, &Position{Seq: 1<<64 - 1}); err == nil {
		t.Error("Head found a root of the largest number")
	}
	for _, seq := range []uint64{1<<64 - 1, 3} {
		if _, err := l.At(ctx, seq); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("At(%d): error %v, want ErrNotFound", seq, err)
		}
	}
}

// endless has every root.
type endless struct{ *remotetest.Memory }

func (e endless) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := e.Memory.Get(ctx, name, p, off)
	if errors.Is(err, remote.ErrNotFound) {
		return copy(p, "anything"), nil
	}
	return n, err
}

func TestRoots(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	head := grow(t, l, 20)
	list := func(from Position) (lines []string) {
		for r, err := range l.Roots(ctx, from) {
			s := "?"
			if r != nil {
				s = fmt.Sprint(r.Seq)
				if r.Who != "Ann <ann@example.org>" || r.Host != "attic" || !r.Time.Equal(noon) || r.Moved != 1 || r.Moves[0].New != commit(int(r.Seq)) {
					t.Errorf("root %d: %+v", r.Seq, r)
				}
			}
			var damage *object.DamageError
			if errors.As(err, &damage) {
				s += " " + damage.Name[len(damage.Name)-2:]
			} else if err != nil {
				s += err.Error()
			}
			lines = append(lines, s)
		}
		return lines
	}
	if got := fmt.Sprint(list(head.Position())); got != "[20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1]" {
		t.Error(got)
	}
	if got := list(Position{Hash: l.id.Hash}); got != nil {
		t.Error(got)
	}
	if got := fmt.Sprint(list(Position{3, head.Hash})); got != "[3 03 2 1]" {
		t.Error(got)
	}
	backup := m.Snapshot()
	m.Damage(RootName(12), 50)
	m.Remove(RootName(5))
	if got := fmt.Sprint(list(head.Position())); got != "[20 19 18 17 16 15 14 13 ? 12 11 10 9 8 7 6 ? 05 4 3 2 1]" {
		t.Error(got)
	}
	m.Restore(backup)

	// Root 7 is replaced by another well-formed root, and kist.json by another file.
	prev, err := l.At(ctx, 6)
	if err != nil {
		t.Fatal(err)
	}
	six, err := l.resolveState(ctx, prev)
	if err != nil {
		t.Fatal(err)
	}
	m.Remove(RootName(7))
	mustAppend(t, l, six, move("main", 6, 7))
	m.Set(IdentityName, append(m.Data(IdentityName), ' '))
	l = Open(m, mustIdentity(t, m), l.o)
	if got := fmt.Sprint(list(head.Position())); got != "[20 19 18 17 16 15 14 13 12 11 10 9 8 7 07 6 5 4 3 2 1 01]" {
		t.Error(got)
	}
	for _, err := range Open(failing(m), l.id, l.o).Roots(ctx, head.Position()) {
		if !errors.Is(err, remote.ErrCredentials) {
			t.Error(err)
		}
	}
}

func failing(m *remotetest.Memory) remote.Backend {
	f := remotetest.NewFaulty(m)
	f.Fail(remotetest.Fault{Op: remotetest.Get, Stays: true, Err: remote.ErrCredentials})
	return f
}

func mustIdentity(t *testing.T, b remote.Backend) *Identity {
	t.Helper()
	id, err := ReadIdentity(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRootsAhead checks that Roots reads few roots at first, and more at a time as the
// caller asks for more.
func TestRootsAhead(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	head := grow(t, l, 200)
	m.ResetCounts()
	read := map[int]int{}
	n := 0
	for _, err := range l.Roots(t.Context(), head.Position()) {
		if err != nil {
			t.Fatal(err)
		}
		read[n] = m.Calls(remotetest.Get)
		n++
	}
	for yielded, want := range map[int]int{0: 8, 7: 8, 8: 24, 24: 56, 56: 120, 120: 184, 184: 200, 199: 200} {
		if read[yielded] != want {
			t.Errorf("%d roots were read before root %d was yielded, want %d", read[yielded], yielded, want)
		}
	}
}
