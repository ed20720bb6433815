package dir

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

func openDir(t testing.TB, root string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), root, remote.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*Backend)
}

// on returns a function that opens a new folder below parent and changes the backend.
func on(parent string, change func(*Backend)) func(*testing.T) remote.Backend {
	return func(t *testing.T) remote.Backend {
		root, err := os.MkdirTemp(parent, "kist")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			noTemps(t, root)
			os.RemoveAll(root)
		})
		b := openDir(t, root)
		change(b)
		return b
	}
}

func noTemps(t *testing.T, root string) {
	if left, _ := filepath.Glob(filepath.Join(root, temps, "*")); len(left) > 0 {
		t.Errorf("temporary files left: %q", left)
	}
}

func TestBackend(t *testing.T) {
	remotetest.Run(t, on(t.TempDir(), func(*Backend) {}))
}

// memoryDisk returns a folder in memory if there is one. Tests of many files are fast
// there.
func memoryDisk(t *testing.T) string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	return dir
}

// otherMoves simulate the moves of other file systems.
var otherMoves = map[string]func(*Backend){
	"a network file system that repeats the request of a link": func(b *Backend) {
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			linkat(from, name, to, newName)
			return linkat(from, name, to, newName)
		}
	},
	"no links, and lost replies of renames": func(b *Backend) {
		var calls atomic.Int32
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			errno := []unix.Errno{unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS}[calls.Add(1)%3]
			return failing(errno)(from, name, to, newName)
		}
		b.rename = func(from *os.File, name string, to *os.File, newName string) error {
			err := renameNew(from, name, to, newName)
			if err == nil && calls.Load()%2 == 0 {
				err = unix.EEXIST
			}
			return err
		}
	},
	"links have other inodes, and links to taken names report success": func(b *Backend) {
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			data, err := os.ReadFile(filepath.Join(from.Name(), name))
			if err != nil {
				return err
			}
			copied := filepath.Join(from.Name(), name+".copy") // linked, so the name appears at once
			if err := os.WriteFile(copied, data, 0o444); err != nil {
				return err
			}
			defer os.Remove(copied)
			linkat(from, name+".copy", to, newName)
			return nil
		}
	},
}

func failing(errno unix.Errno) move {
	return func(_ *os.File, _ string, to *os.File, newName string) error {
		return callRetrying("move", to, newName, func(int) error { return errno })
	}
}

func TestBackendOnOtherFileSystems(t *testing.T) {
	for name, change := range otherMoves {
		t.Run(name, func(t *testing.T) { remotetest.Run(t, on(memoryDisk(t), change)) })
	}
}
