package collect_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// repairOf repairs a remote as a new process of a pusher.
func repairOf(p *transfertest.Pusher, b remote.Backend, o collect.RepairOptions) (*collect.RepairResult, error) {
	p.T.Helper()
	p.Reopen(b)
	return collect.Repair(p.T.Context(), p.Remote, p.Local, o)
}

// plainRoot returns the bytes of a root before they were encrypted.
func plainRoot(t *testing.T, b *remotetest.Memory, name string) []byte {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data := make([]byte, 1<<20)
	n, err := r.Backend().Get(t.Context(), name, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	return data[:n]
}

// TestPutBack damages the newest root in several ways. Only a repository that has seen this
// root restores it.
func TestPutBack(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	old, p := transfertest.NewPusher(t, start), transfertest.NewPusher(t, start)
	old.Local, old.ReadWriter = p.Local, p.Local
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	if _, err := old.Remote.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.MustPush("main", p.MakeGrown(2, one))
	name := rootlog.RootName(2)
	want, before := plainRoot(t, start, name), start.Snapshot()

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
		if _, err := repairOf(old, b, collect.RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(b.Data(name), damaged) {
			t.Errorf("%s: repair without a copy: %v, want ErrCorrupt", what, err)
		}

		result, err := repairOf(p, b, collect.RepairOptions{DryRun: true})
		if err != nil || !slices.Contains(result.Repaired, name) || !slices.Equal(b.Data(name), damaged) {
			t.Errorf("%s: dry run: %+v, %v", what, result, err)
		}
		result, err = repairOf(p, b, collect.RepairOptions{})
		if err != nil || len(result.Lost) > 0 || !slices.Contains(result.Repaired, name) {
			t.Errorf("%s: repair: %+v, %v", what, result, err)
		}
		if !slices.Equal(plainRoot(t, b, name), want) {
			t.Errorf("%s: the repair wrote other bytes", what)
		}
		transfertest.WantIntact(t, b, nil)
		if result, err := repairOf(p, b, collect.RepairOptions{}); err != nil || len(result.Repaired) > 0 {
			t.Errorf("%s: second repair: %+v, %v", what, result, err)
		}
	}
}

// TestPutBackRefuses has roots that a repair must not restore.
func TestPutBackRefuses(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	p, q := transfertest.NewPusher(t, start), transfertest.NewPusher(t, start)
	q.Local, q.ReadWriter = p.Local, p.Local
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	before := start.Snapshot()
	p.MustPush("main", p.MakeGrown(2, one))
	name := rootlog.RootName(2)

	// The remote was rolled back, and another repository has pushed since.
	fork := remotetest.NewMemory()
	fork.Restore(before)
	q.Reopen(fork)
	three := q.MakeGrown(3, one)
	q.MustPush("main", three)
	q.MustPush("main", q.MakeGrown(4, three))
	fork.Damage(name, 50)
	damaged := fork.Data(name)
	if _, err := repairOf(p, fork, collect.RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(fork.Data(name), damaged) {
		t.Errorf("a root of another history: %v, want ErrCorrupt", err)
	}

	// A missing root is not restored.
	gone := remotetest.NewMemory()
	gone.Restore(before)
	if _, err := repairOf(p, gone, collect.RepairOptions{}); !errors.Is(err, rootlog.ErrRollback) || gone.Data(name) != nil {
		t.Errorf("a missing root: %v, want ErrRollback", err)
	}

	// A damaged copy is not used.
	start.Damage(name, 50)
	damaged = start.Data(name)
	copied := filepath.Join(p.Dir, "state", "root-00000000000000000002")
	data, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 7 {
		data[i] ^= 4
		if err := os.WriteFile(copied, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := repairOf(p, start, collect.RepairOptions{}); !errors.Is(err, object.ErrCorrupt) || !slices.Equal(start.Data(name), damaged) {
			t.Fatalf("byte %d of the copy is damaged: %v, want ErrCorrupt", i, err)
		}
		data[i] ^= 4
	}
	if found, err := transfer.CheckState(t.Context(), p.Dir); err != nil || len(found) != 1 {
		t.Errorf("CheckState = %v, %v; want 1 damaged file", found, err)
	}
}
