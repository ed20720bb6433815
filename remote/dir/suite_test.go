package dir

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// openDir opens a folder.
func openDir(t testing.TB, root string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), root, remote.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*Backend)
}

// on returns a function that opens a new folder below parent, changed.
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
		t.Errorf("left behind: %q", left)
	}
}

func TestBackend(t *testing.T) {
	remotetest.Run(t, on(t.TempDir(), func(*Backend) {}))
}

// memoryDisk is a folder in memory, where tests of many files are fast.
func memoryDisk(t *testing.T) string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	return dir
}

func TestBackendInMemory(t *testing.T) {
	remotetest.Run(t, on(memoryDisk(t), func(*Backend) {}))
}

// moves are file systems that differ from the usual one.
var moves = map[string]func(*Backend){
	"no links":                 func(b *Backend) { b.link = failing(unix.EPERM) },
	"no links, said otherwise": func(b *Backend) { b.link = failing(unix.EOPNOTSUPP) },
	"a link is asked for twice": func(b *Backend) {
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			linkat(from, name, to, newName)
			return linkat(from, name, to, newName)
		}
	},
	"taken names are said to be free": func(b *Backend) {
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			linkat(from, name, to, newName)
			return nil
		}
	},
	"files are numbered by their names": func(b *Backend) {
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			data, err := os.ReadFile(filepath.Join(from.Name(), name))
			if err != nil {
				return err
			}
			whole := name + ".copy" // as a link is made: at once
			if err := os.WriteFile(filepath.Join(from.Name(), whole), data, 0o444); err != nil {
				return err
			}
			defer os.Remove(filepath.Join(from.Name(), whole))
			return linkat(from, whole, to, newName)
		}
	},
	"replies of renames are lost": func(b *Backend) {
		b.link = failing(unix.ENOSYS)
		b.rename = func(from *os.File, name string, to *os.File, newName string) error {
			if err := renameNew(from, name, to, newName); err != nil {
				return err
			}
			return call("rename", to, newName, func(int) error { return unix.EEXIST })
		}
	},
}

func failing(errno error) move {
	return func(_ *os.File, _ string, to *os.File, newName string) error {
		return call("move", to, newName, func(int) error { return errno })
	}
}

func TestBackendOnOtherFileSystems(t *testing.T) {
	for name, change := range moves {
		t.Run(name, func(t *testing.T) { remotetest.Run(t, on(memoryDisk(t), change)) })
	}
}
