package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Scan stays below the configured roots. One of them contains the repository.
func TestScanRoots(t *testing.T) {
	f := newReal(t)
	f.write("outside", "0")
	f.write(".kistignore", "*")
	f.write("srv/beside", "1")
	f.write("srv/data/a/x", "2")
	f.write("etc/hosts", "3")
	f.write("etc/repo/config", "4")
	f.write("one", "5")
	f.mkdir("etc/repo/tmp")
	open := func(roots ...string) {
		t.Helper()
		f.open(Options{Chunker: cutter(t), Now: f.w.opt.Now, RepoName: "etc/repo", TempDir: "etc/repo/tmp", Roots: roots})
	}
	check := func(o ScanOptions, want ...string) {
		t.Helper()
		same(t, "scan", f.scan(o), append([]string{}, want...))
	}
	open("srv/data", "etc", "one", "etc/hosts")
	check(ScanOptions{}, "untracked etc/", "untracked etc/hosts", "untracked one", "untracked srv/", "untracked srv/data/", "untracked srv/data/a/", "untracked srv/data/a/x")
	check(ScanOptions{Paths: []string{"srv/beside", "srv/data/a", "outside", "etc/repo"}}, "untracked etc/", "absent outside", "untracked srv/", "absent srv/beside", "untracked srv/data/", "untracked srv/data/a/", "untracked srv/data/a/x")
	f.stage()
	check(ScanOptions{})

	// The content of a removed root counts as deleted.
	open("srv/data", "one")
	check(ScanOptions{}, "deleted etc/", "deleted etc/hosts")
	check(ScanOptions{Paths: []string{"etc"}}, "deleted etc/", "deleted etc/hosts")
	open("srv/data/a", "etc", "srv/new", "nowhere/b", "etc/repo/tmp")
	check(ScanOptions{}, "unreadable nowhere", "deleted one", "unreadable srv/new")

	// A root that is missing or empty may be an unmounted disk.
	open("srv/data", "etc", "one")
	f.check(os.Rename(filepath.Join(f.root, "srv/data"), filepath.Join(f.root, "moved")))
	check(ScanOptions{}, "unreadable srv/data/")
	f.mkdir("srv/data")
	check(ScanOptions{}, "unreadable srv/data/")
	check(ScanOptions{Paths: []string{"srv/data"}}, "unreadable srv/data/")
	f.remove("srv/data")
	f.symlink("../moved", "srv/data")
	check(ScanOptions{}, "unreadable srv/data/")
	f.remove("srv/data")
	f.check(os.Rename(filepath.Join(f.root, "moved"), filepath.Join(f.root, "srv/data")))
	check(ScanOptions{})
	f.check(os.Rename(filepath.Join(f.root, "srv"), filepath.Join(f.root, "moved")))
	f.symlink("moved", "srv")
	check(ScanOptions{}, "unreadable srv/")

	open("etc/repo")
	if got := f.scan(ScanOptions{}); !slices.Contains(got, "unreadable etc/repo/") && !slices.Contains(got, "unreadable etc/repo") {
		t.Errorf("with the repository as a root: %q, want it unreadable", got)
	}
	f.open(Options{Roots: []string{}})
	if _, err := f.w.Scan(ctx, f.idx, ScanOptions{}); !errors.Is(err, ErrNoRoots) {
		t.Errorf("Scan without roots: error %v, want ErrNoRoots", err)
	}
	if _, err := f.w.Apply(ctx, f.store, []Op{{Path: "one"}}, ApplyOptions{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Apply with roots: error %v, want ErrReadOnly", err)
	}
}
