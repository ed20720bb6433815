package transfer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// repairOf repairs a remote as a new process of a pusher.
func repairOf(p *pusher, b remote.Backend, o RepairOptions) (*RepairResult, error) {
	p.t.Helper()
	p.reopen(b)
	return p.remote.Repair(p.t.Context(), p.local, o)
}

// TestPutBack damages the newest root in several ways. Only a repository that has seen this
// root restores it.
func TestPutBack(t *testing.T) {
	t.Parallel()
	start := newRemote(t)
	old, p := newPusher(t, start), newPusher(t, start)
	old.local, old.ReadWriter = p.local, p.local
	one := p.grow(1)
	p.mustPush("main", one)
	if _, err := old.remote.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mustPush("main", p.grow(2, one))
	name := rootlog.RootName(2)
	want, before := start.Data(name), start.Snapshot()

	for what, damage := range map[string]func(b *remotetest.Memory){
		"one bit":       func(b *remotetest.Memory) { b.Damage(name, 50) },
		"cut off":       func(b *remotetest.Memory) { b.Truncate(name, 60) },
		"empty":         func(b *remotetest.Memory) { b.Set(name, nil) },
		"an older root": func(b *remotetest.Memory) { b.Set(name, b.Data(rootlog.RootName(1))) },
		"other bytes":   func(b *remotetest.Memory) { b.Set(name, []byte("something else")) },
	} {
		b := remotetest.NewMemory()
		b.Restore(before)
		damage(b)
		damaged := b.Data(name)

		// An older root does not replace it.
		if _, err := repairOf(old, b, RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(b.Data(name), damaged) {
			t.Errorf("%s: repair without a copy: %v, want ErrCorrupt", what, err)
		}

		result, err := repairOf(p, b, RepairOptions{DryRun: true})
		if err != nil || !slices.Contains(result.Repaired, name) || !slices.Equal(b.Data(name), damaged) {
			t.Errorf("%s: dry run: %+v, %v", what, result, err)
		}
		result, err = repairOf(p, b, RepairOptions{})
		if err != nil || len(result.Lost) > 0 || !slices.Contains(result.Repaired, name) {
			t.Errorf("%s: repair: %+v, %v", what, result, err)
		}
		if !slices.Equal(b.Data(name), want) {
			t.Errorf("%s: the repair wrote other bytes", what)
		}
		wantIntact(t, b, nil)
		if result, err := repairOf(p, b, RepairOptions{}); err != nil || len(result.Repaired) > 0 {
			t.Errorf("%s: second repair: %+v, %v", what, result, err)
		}
	}
}

// TestPutBackRefuses has roots that a repair must not restore.
func TestPutBackRefuses(t *testing.T) {
	t.Parallel()
	start := newRemote(t)
	p, q := newPusher(t, start), newPusher(t, start)
	q.local, q.ReadWriter = p.local, p.local
	one := p.grow(1)
	p.mustPush("main", one)
	before := start.Snapshot()
	p.mustPush("main", p.grow(2, one))
	name := rootlog.RootName(2)

	// The remote was rolled back, and another repository has pushed since.
	fork := remotetest.NewMemory()
	fork.Restore(before)
	q.reopen(fork)
	three := q.grow(3, one)
	q.mustPush("main", three)
	q.mustPush("main", q.grow(4, three))
	fork.Damage(name, 50)
	damaged := fork.Data(name)
	if _, err := repairOf(p, fork, RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(fork.Data(name), damaged) {
		t.Errorf("a root of another history: %v, want ErrCorrupt", err)
	}

	// A missing root is not restored.
	gone := remotetest.NewMemory()
	gone.Restore(before)
	if _, err := repairOf(p, gone, RepairOptions{}); !errors.Is(err, rootlog.ErrRollback) || gone.Data(name) != nil {
		t.Errorf("a missing root: %v, want ErrRollback", err)
	}

	// A damaged copy is not used.
	start.Damage(name, 50)
	damaged = start.Data(name)
	copied := filepath.Join(p.dir, stateFolder, "root-00000000000000000002")
	data, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 7 {
		data[i] ^= 4
		if err := os.WriteFile(copied, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := repairOf(p, start, RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(start.Data(name), damaged) {
			t.Fatalf("byte %d of the copy is damaged: %v, want ErrCorrupt", i, err)
		}
		data[i] ^= 4
	}
	if found, err := CheckState(t.Context(), p.dir); err != nil || len(found) != 1 {
		t.Errorf("CheckState = %v, %v; want 1 damaged file", found, err)
	}
}
