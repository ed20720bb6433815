package disk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object/disk"
)

// functions call each function of the package that takes a path in a repository.
var functions = map[string]func(dir string) error{
	"Open":       func(dir string) error { f, err := disk.Open(dir + "/file"); f.Close(); return err },
	"ReadFile":   func(dir string) error { _, err := disk.ReadFile(dir + "/file"); return err },
	"ReadDir":    func(dir string) error { _, err := disk.ReadDir(dir + "/folder"); return err },
	"Lstat":      func(dir string) error { _, err := disk.Lstat(dir + "/file"); return err },
	"Stat":       func(dir string) error { _, err := disk.Stat(dir + "/file"); return err },
	"Create":     func(dir string) error { return disk.Create(dir+"/new", nil) },
	"CreateTemp": func(dir string) error { f, err := disk.CreateTemp(dir, "temp"); f.Close(); return err },
	"Mkdir":      func(dir string) error { return disk.Mkdir(dir+"/new", 0o777) },
	"MkdirAll":   func(dir string) error { return disk.MkdirAll(dir+"/new/below", 0o777) },
	"MakeDir":    func(dir string) error { return disk.MakeDir(dir + "/new/below") },
	"WriteFile":  func(dir string) error { return disk.WriteFile(dir+"/file", nil) },
	"Remove":     func(dir string) error { return disk.Remove(dir + "/file") },
	"RemoveAll":  func(dir string) error { return disk.RemoveAll(dir + "/folder/below") },
	"Rename":     func(dir string) error { return disk.Rename(dir+"/file", dir+"/other") },
	"Chmod":      func(dir string) error { return disk.Chmod(dir+"/file", 0o600) },
	"Truncate":   func(dir string) error { return disk.Truncate(dir+"/file", 0) },
	"SyncDir":    func(dir string) error { return disk.SyncDir(dir + "/folder") },
	"Lock": func(dir string) error {
		lock, err := disk.Lock(context.Background(), dir+"/lock", disk.Exclusive, 0)
		if err == nil {
			lock.Unlock()
		}
		return err
	},
}

// If another folder takes the place of a held repository, each function fails, and changes
// nothing there. When the repository is back, and when it is no longer held, each succeeds.
func TestHeld(t *testing.T) {
	fill := func(dir string) error {
		return errors.Join(os.MkdirAll(dir+"/folder/below", 0o777), os.WriteFile(dir+"/file", []byte("text"), 0o666))
	}
	for place, make := range map[string]func(dir string) error{
		"nothing":            func(string) error { return nil },
		"a file":             func(dir string) error { return os.WriteFile(dir, nil, 0o666) },
		"an empty folder":    func(dir string) error { return os.Mkdir(dir, 0o777) },
		"another repository": fill,
	} {
		for name, do := range functions {
			dir := filepath.Join(t.TempDir(), disk.RepositoryDir)
			if err := fill(dir); err != nil {
				t.Fatal(err)
			}
			held, err := disk.HoldRepository(dir)
			if err != nil {
				t.Fatal(err)
			}

			if err := errors.Join(os.Rename(dir, dir+"-away"), make(dir)); err != nil {
				t.Fatal(err)
			}
			before := entries(dir)
			away := new(disk.AwayError)
			if err := do(dir); !errors.As(err, &away) || away.Dir != dir {
				t.Errorf("%s, %s: error %v, want an AwayError", name, place, err)
			}
			if _, err := held.Open(); !errors.As(err, &away) {
				t.Errorf("Open of the held folder, %s: error %v, want an AwayError", place, err)
			}
			if after := entries(dir); after != before {
				t.Errorf("%s, %s: the folder has %d entries, want %d", name, place, after, before)
			}

			if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+"-away", dir)); err != nil {
				t.Fatal(err)
			}
			if err := do(dir); err != nil {
				t.Errorf("%s, after the repository is back: %v", name, err)
			}
			if err := errors.Join(held.Close(), os.RemoveAll(dir), fill(dir), do(dir)); err != nil {
				t.Errorf("%s, no longer held: %v", name, err)
			}
		}
	}
}

// entries returns the number of files and folders at a path.
func entries(path string) (n int) {
	filepath.WalkDir(path, func(_ string, _ os.DirEntry, err error) error {
		if err == nil {
			n++
		}
		return nil
	})
	return n
}
