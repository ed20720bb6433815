package rootlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// unruly loses requests and replies at random. A Create may take effect at any later
// time: for the first time, or again.
type unruly struct {
	*remotetest.Memory

	mu   sync.Mutex
	rng  *rand.Rand
	late []func()
}

func (u *unruly) roll() (fate float64, late func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.late); n > 0 && u.rng.Float64() < 0.5 {
		i := u.rng.IntN(n)
		late = u.late[i]
		u.late[i] = u.late[n-1]
		u.late = u.late[:n-1]
	}
	return u.rng.Float64(), late
}

func (u *unruly) Create(ctx context.Context, name string, data []byte) error {
	fate, late := u.roll()
	if late != nil {
		late()
	}
	if fate < 0.3 { // the request also arrives later
		u.mu.Lock()
		u.late = append(u.late, func() { u.Memory.Create(context.WithoutCancel(ctx), name, data) })
		u.mu.Unlock()
	}
	lost := &remote.Error{Op: "create", Name: name, Kind: remote.ErrTemporary}
	if fate < 0.15 {
		return lost
	}
	err := u.Memory.Create(ctx, name, data)
	if fate > 0.8 {
		return lost
	}
	return err
}

func (u *unruly) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if fate, late := u.roll(); late != nil {
		late()
	} else if fate < 0.02 {
		return 0, &remote.Error{Op: "get", Name: name, Kind: remote.ErrTemporary}
	}
	return u.Memory.Get(ctx, name, p, off)
}

// 32 concurrent writers append 200 roots. Then the log has each
// acknowledged root once, and no other root.
func TestManyWriters(t *testing.T) {
	writers, roots := 32, 200
	if overCrypt {
		roots = 60
	}
	u := &unruly{Memory: remotetest.NewMemory(), rng: rand.New(rand.NewPCG(1, 2))}
	newLog(t, u.Memory)
	var (
		wg     sync.WaitGroup
		todo   atomic.Int64
		mu     sync.Mutex
		acked  = map[string]uint64{} // by who
		losses atomic.Int64
	)

	for w := range writers {
		wg.Go(func() {
			o := Options{Rand: newRandom(fmt.Sprint("writer ", w)), Sleep: noWait}
			l := reopen(t, u, mustIdentity(t, u.Memory), o)
			for todo.Add(1) <= int64(roots) {
				who := fmt.Sprintf("writer %d, %d", w, todo.Load())
				seq, lost := appendUntilDone(t, l, fmt.Sprint("w", w), who)
				losses.Add(lost)
				mu.Lock()
				acked[who] = seq
				mu.Unlock()
			}
		})
	}

	wg.Wait()
	for _, late := range u.late {
		late()
	}
	if losses.Load() < int64(roots/10) {
		t.Errorf("%d lost races, want at least %d", losses.Load(), roots/10)
	}

	l := newLog(t, u.Memory)
	head := mustHead(t, l, nil)
	if head.Seq != uint64(roots) || len(acked) != roots {
		t.Fatalf("%d roots, %d acknowledged, want %d", head.Seq, len(acked), roots)
	}

	n := 0
	for r, err := range l.Roots(ctx, head.Position()) {
		if err != nil {
			t.Fatal(err)
		}
		if acked[r.Who] != r.Seq {
			t.Errorf("root %d is by %q, which appended root %d", r.Seq, r.Who, acked[r.Who])
		}
		n++
	}
	if n != roots {
		t.Errorf("%d roots in the history, want %d", n, roots)
	}
}

// appendUntilDone moves the writer's own branch. It retries after lost races and
// temporary errors of reads. It returns the number of the root and of the lost races.
func appendUntilDone(t *testing.T, l *Log, branch, who string) (seq uint64, lost int64) {
	var head *State
	for {
		err := error(nil)
		if head == nil {
			head, err = l.Head(ctx, nil)
		}
		if err == nil {
			old := head.Refs["refs/heads/"+branch]
			c := Change{Who: who, Time: noon, Refs: []RefChange{{Name: "refs/heads/" + branch, Old: old, New: commit(int(head.Seq) + 1)}}}
			var next *State
			if next, err = l.Append(ctx, head, c); err == nil {
				return next.Seq, lost
			}
			head = nil
		}
		var race *LostError
		switch {
		case errors.As(err, &race):
			head = race.Head
			lost++
		case errors.Is(err, ErrUnknown), !errors.Is(err, remote.ErrTemporary):
			t.Errorf("%s: %v", who, err)
			return 0, lost
		}
	}
}
