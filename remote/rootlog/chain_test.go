package rootlog

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// newEncrypted makes an encrypted remote in b and opens its log.
func newEncrypted(t testing.TB, b remote.Backend) *Log {
	t.Helper()
	o := Options{Rand: newRandom(t.Name()), Sleep: noWait}
	id, err := initEncrypted(ctx, b, "", Chunker{}, o.Rand)
	if err != nil {
		t.Fatal(err)
	}
	return reopen(t, b, id, o)
}

// client opens the log of l again, as another process that knows no key.
func client(t testing.TB, b remote.Backend, l *Log) *Log {
	t.Helper()
	return reopen(t, b, l.id, Options{Rand: newRandom(t.Name() + " client"), Sleep: noWait})
}

// Entry j of back is the hash of the last earlier root whose number is a multiple of 2^j.
func TestBack(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	hashes := []Hash{l.id.Hash}
	s := mustHead(t, l, nil)
	for seq := uint64(1); seq <= 40; seq++ {
		s = mustAppend(t, l, s, move("main", int(s.Seq), int(seq)))
		root, err := l.At(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}

		var want []Hash
		for step := uint64(2); ; step *= 2 {
			last := uint64(0) // by counting down, unlike the code
			for n := seq - 1; n > 0 && last == 0; n-- {
				if n%step == 0 {
					last = n
				}
			}
			if last == 0 {
				break
			}
			want = append(want, hashes[last])
		}
		if got := root.body.hashes(); !slices.Equal(got, want) {
			t.Errorf("root %d has back %.8s, want %.8s", seq, got, want)
		}
		hashes = append(hashes, s.Hash)
	}
}

// A path leads to each earlier root, in about 2 log2(k) steps; around unreadable roots if there is any way.
func TestPath(t *testing.T) {
	const most = 70
	for from := uint64(1); from <= most; from++ {
		for to := uint64(1); to <= from; to++ {
			path, ok := pathTo(from, to, func(uint64) bool { return false })
			if limit := 2 * bits.Len64(from-to); !ok || len(path) > limit {
				t.Fatalf("from %d to %d: %v, %t; want at most %d steps", from, to, path, ok, limit)
			}
			checkSteps(t, from, to, path)
		}
	}

	// With one or two unreadable roots, the path exists if a search of all paths finds one.
	for to := uint64(1); to < 20; to++ {
		for a := to + 1; a < 40; a++ {
			for b := a; b < 40; b += 3 {
				avoid := func(seq uint64) bool { return seq == a || seq == b }
				path, ok := pathTo(40, to, avoid)
				if want := reachable(40, to, avoid); ok != want {
					t.Fatalf("to %d without %d and %d: %t, want %t", to, a, b, ok, want)
				}
				if ok {
					checkSteps(t, 40, to, path)
				}
			}
		}
	}
}

// checkSteps checks that each step of a path is one that a root has.
func checkSteps(t *testing.T, from, to uint64, path []pathStep) {
	t.Helper()
	at := from
	for _, step := range path {
		if step.j > backLen(at) || step.seq != backTarget(at, step.j) || step.seq >= at {
			t.Fatalf("root %d has no step %v", at, step)
		}
		at = step.seq
	}
	if at != to {
		t.Fatalf("the path from %d ends at %d, not %d", from, at, to)
	}
}

// reachable searches all paths.
func reachable(from, to uint64, avoid func(uint64) bool) bool {
	found := map[uint64]bool{from: true}
	for at := from; at > to; at-- {
		if !found[at] {
			continue
		}
		for j := range backLen(at) + 1 {
			if next := backTarget(at, j); !avoid(next) {
				found[next] = true
			}
		}
	}
	return found[to]
}

// The search for the head reads few roots, and none twice.
func TestHeadRequestsOverCrypt(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	var positions []Position
	s := mustHead(t, l, nil)
	for range 200 {
		s = mustAppend(t, l, s, move("main", int(s.Seq), int(s.Seq)+1))
		positions = append(positions, s.Position())
	}

	for _, test := range []struct{ behind, most int }{{0, 2}, {1, 3}, {2, 5}, {10, 12}, {100, 30}, {199, 32}} {
		l := client(t, m, l)
		mustHead(t, l, &positions[199]) // it knows the keys
		before := m.Calls(remotetest.Any)
		mustHead(t, l, &positions[199-test.behind])
		if calls := m.Calls(remotetest.Any) - before; calls > test.most {
			t.Errorf("%d roots behind: %d requests, want at most %d", test.behind, calls, test.most)
		}
	}

	// As on a clear remote, and the keyset, and the roots between on the path from root 200 to root 1.
	path, _ := pathTo(200, 1, func(uint64) bool { return false })
	before := m.Calls(remotetest.Any)
	mustHead(t, client(t, m, l), nil)
	if calls, most := m.Calls(remotetest.Any)-before, 5+len(path); calls > most {
		t.Errorf("first contact: %d requests, want at most %d", calls, most)
	}
}

// fork appends roots to two copies of a remote that has root n, and returns the heads and copies.
func fork(t *testing.T, l *Log, m *remotetest.Memory, n int) (common Position, heads [2]*State, stores [2]*remotetest.Memory) {
	t.Helper()
	base := grow(t, l, n)
	for i := range stores {
		stores[i] = remotetest.NewMemory()
		stores[i].Restore(m.Snapshot())
		branch := client(t, stores[i], l)
		s := mustHead(t, branch, nil)
		for k := range 40 {
			s = mustAppend(t, branch, s, Change{Time: noon, Who: fmt.Sprint("fork ", i, " ", k)})
		}
		heads[i] = s
	}
	return base.Position(), heads, stores
}

// A store that leads clients from one branch of a fork to the other is found out, wherever it
// splices them.
func TestForks(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	const n = 5
	common, heads, stores := fork(t, l, m, n)
	for known := uint64(n + 1); known <= n+39; known++ {
		root, err := client(t, stores[0], l).At(ctx, known)
		if err != nil {
			t.Fatal(err)
		}
		remembered := root.Position()

		// The remembered root and those before come from one branch, the later ones from the other.
		spliced := remotetest.NewMemory()
		spliced.Restore(stores[1].Snapshot())
		for seq := uint64(n + 1); seq <= known; seq++ {
			spliced.Set(RootName(seq), stores[0].Data(RootName(seq)))
		}
		wantFork(t, client(t, spliced, l), remembered)

		// Only the remembered root comes from the other branch.
		spliced.Restore(stores[1].Snapshot())
		spliced.Set(RootName(known), stores[0].Data(RootName(known)))
		wantFork(t, client(t, spliced, l), remembered)
	}

	// Each branch by itself is intact, from the common root and at first contact.
	for i, store := range stores {
		for _, remembered := range []*Position{nil, &common} {
			if s := mustHead(t, client(t, store, l), remembered); s.Hash != heads[i].Hash {
				t.Errorf("branch %d: head %v", i, s.Position())
			}
		}
	}

	// At first contact, a splice on the path is damage.
	spliced := remotetest.NewMemory()
	spliced.Restore(stores[1].Snapshot())
	spliced.Set(RootName(32), stores[0].Data(RootName(32)))
	if _, err := client(t, spliced, l).Head(ctx, nil); !errors.Is(err, remote.ErrDamaged) {
		t.Errorf("first contact with a spliced log: %v", err)
	}
}

func wantFork(t *testing.T, l *Log, remembered Position) {
	t.Helper()
	_, err := l.Head(ctx, &remembered)
	rollback, ok := errors.AsType[*RollbackError](err)
	if !ok || !errors.Is(err, ErrRollback) || rollback.Fork <= remembered.Seq || rollback.Remembered != remembered {
		t.Errorf("remembered root %d of another branch: %v, want a fork", remembered.Seq, err)
	}
}

// Skipped roots that are damaged or missing do not matter, unless nothing leads around them.
func TestPathAroundDamage(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	grow(t, l, 33)
	backup := m.Snapshot()
	root, err := l.At(ctx, 9)
	if err != nil {
		t.Fatal(err)
	}
	remembered := root.Position()

	for seq := uint64(10); seq < 32; seq++ {
		for _, harm := range []func(string){m.Remove, func(name string) { m.Damage(name, 2000) }} {
			m.Restore(backup)
			harm(RootName(seq))
			_, err := client(t, m, l).Head(ctx, &remembered)
			switch gone := m.Data(RootName(seq)) == nil; {
			case gone && (seq == 10 || seq == 11 || seq == 13 || seq == 17 || seq == 25):
				// The search takes an absent root for the end of the log.
			case !reachable(33, 9, func(n uint64) bool { return n == seq }): // such as 10, which alone has the hash of 9
				wantDamage(t, err, RootName(seq))
			case err != nil:
				t.Errorf("without root %d: %v", seq, err)
			}
		}
	}

	// At first contact the same holds, and damage of the first root ends the check.
	for seq := uint64(1); seq < 32; seq++ {
		m.Restore(backup)
		m.Damage(RootName(seq), 2000)
		if s, err := client(t, m, l).Head(ctx, nil); err != nil || s.Seq != 33 {
			t.Errorf("first contact, root %d damaged: %v", seq, err)
		}
	}
}
