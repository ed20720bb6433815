package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// newWithState returns a remote, and a pusher whose folder has a file of each kind.
func newWithState(t *testing.T) (*remotetest.Memory, *transfertest.Pusher) {
	t.Helper()
	b, p, _ := withIndex(t)
	var many []transfer.RefUpdate
	id := p.MakeGrown(1)
	for i := range 500 {
		many = append(many, transfer.RefUpdate{Name: fmt.Sprintf("refs/heads/a-branch-with-a-name/%d", i), New: object.Key{Kind: object.KindCommit, ID: id}})
	}
	if _, err := p.Remote.Push(t.Context(), p.Local, transfer.PushOptions{Updates: many, Head: transfertest.MainRef}); err != nil {
		t.Fatal(err)
	}
	p.Reopen(b)
	if _, err := p.Remote.Snapshot(t.Context()); err != nil { // copies the state file
		t.Fatal(err)
	}
	stopAtRoot(p, b, "side", p.MakeGrown(2))
	return b, p
}

// stateFiles returns the files of a remote's folder, without the locks.
func stateFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == transfer.LockFile {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// damagedState returns the files that CheckState finds damaged, as paths below the folder.
func damagedState(t *testing.T, dir string) (list []string) {
	t.Helper()
	damage, err := transfer.CheckState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range damage {
		list = append(list, strings.TrimPrefix(d.Name, dir+"/"))
	}
	return list
}

// repairAll repairs the files that CheckState finds damaged.
func repairAll(t *testing.T, dir string) {
	t.Helper()
	damage, err := transfer.CheckState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range damage {
		kept := false
		how, err := transfer.RepairState(t.Context(), dir, d, false, func() error { kept = true; return nil })
		if err != nil || how == "" || !kept {
			t.Fatalf("%s: %q, %v, kept: %v", d.Name, how, err, kept)
		}
	}
}

// TestStateFlips checks that flipped bits are noticed in each local file of a remote, and
// that a repair restores the head and the binding.
func TestStateFlips(t *testing.T) {
	b, p := newWithState(t)
	files := stateFiles(t, p.Dir)
	sorts := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 13))

	for name, data := range files {
		sorts[strings.Split(name, "/")[0]]++
		path := filepath.Join(p.Dir, name)
		for at := range data {
			bits := []int{rng.IntN(8)}
			if name == transfer.HeadFile {
				bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
			} else if len(data) > 1000 && rng.IntN(len(data)/300) > 0 {
				continue
			}

			for _, bit := range bits {
				flipped := bytes.Clone(data)
				flipped[at] ^= 1 << bit
				if err := os.WriteFile(path, flipped, 0o666); err != nil {
					t.Fatal(err)
				}
				if err := transfer.CheckStateFile(name, path); err == nil {
					t.Fatalf("bit %d of byte %d of %s is not noticed", bit, at, name)
				}
			}
		}

		if found := damagedState(t, p.Dir); !slices.Equal(found, []string{name}) {
			t.Fatalf("%s is damaged, but CheckState found %v", name, found)
		}
		repairAll(t, p.Dir)
		if found := damagedState(t, p.Dir); len(found) > 0 {
			t.Fatalf("%s after the repair: %v", name, found)
		}
		if after := stateFiles(t, p.Dir)[name]; (name == transfer.HeadFile || name == transfer.BindingFile) && !bytes.Equal(after, data) {
			t.Errorf("%s is %q after the repair, want %q", name, after, data)
		}

		p.Reopen(b)
		if _, err := p.Remote.Snapshot(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if len(sorts) != 5 {
		t.Errorf("kinds of files: %v, want 5", sorts)
	}
}

// TestLostHead checks that a head that is damaged beyond repair stops all use of the remote,
// until the head is rebuilt. The rebuilt head is then remembered.
func TestLostHead(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	old := b.Snapshot()
	p.MustPush("main", p.MakeGrown(2, one))

	for _, data := range []string{"", "{", "{}", "{}\ncrc32c 00000000\n", "{\"seq\":7}\ncrc32c 12345678\n"} {
		if err := os.WriteFile(filepath.Join(p.Dir, transfer.HeadFile), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
		p.Reopen(b)
		_, err := p.Remote.Head(t.Context())
		var damage *object.DamageError
		if !errors.As(err, &damage) || !errors.Is(err, object.ErrCorrupt) {
			t.Fatalf("%q: %v, want ErrCorrupt", data, err)
		}

		keep := func() error { return nil }
		if _, err := transfer.RepairState(t.Context(), p.Dir, damage, false, keep); !errors.Is(err, transfer.ErrHeadLost) {
			t.Fatalf("%q: RepairState: %v, want ErrHeadLost", data, err)
		}

		head, err := p.Remote.FirstHead(t.Context())
		if err == nil {
			err = p.Remote.RebuildHead(t.Context(), head, false, keep)
		}
		if err != nil {
			t.Fatal(err)
		}

		p.Reopen(b)
		if head, err := p.Remote.Head(t.Context()); err != nil || head.Seq != 2 {
			t.Errorf("%q: rebuilt head %v, want root 2; %v", data, head, err)
		}
	}

	b.Restore(old)
	p.Reopen(b)
	if _, err := p.Remote.Head(t.Context()); !errors.Is(err, rootlog.ErrRollback) {
		t.Errorf("Head after a rollback: %v, want ErrRollback", err)
	}
}

// Files that lost the line with their checksum count as damaged. All but the head are made again.
func TestStateWithoutChecksum(t *testing.T) {
	b, p := newWithState(t)
	files := stateFiles(t, p.Dir)
	var cut []string
	for name, data := range files {
		if old, summed, err := disk.CutSum(data); summed && err == nil {
			cut = append(cut, name)
			if err := os.WriteFile(filepath.Join(p.Dir, name), old, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := damagedState(t, p.Dir)
	for _, name := range cut {
		if !slices.Contains(found, name) {
			t.Errorf("damaged files: %v, want %s, too", found, name)
		}
	}

	p.Reopen(b)
	if _, err := p.Remote.Snapshot(t.Context()); !errors.Is(err, transfer.ErrState) {
		t.Errorf("with a head without a checksum: %v, want ErrState", err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, transfer.HeadFile), files[transfer.HeadFile], 0o666); err != nil {
		t.Fatal(err)
	}
	p.Reopen(b)
	if _, err := p.Remote.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := stateFiles(t, p.Dir); !bytes.Equal(now[transfer.BindingFile], files[transfer.BindingFile]) {
		t.Errorf("%s is %q, want %q", transfer.BindingFile, now[transfer.BindingFile], files[transfer.BindingFile])
	}
}
