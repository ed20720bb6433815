package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// shmDir returns a new folder below /dev/shm, where a file system is mounted, by its path
// from "/".
func shmDir(t *testing.T) string {
	t.Helper()
	f := newReal(t)
	f.root = "/"
	f.open(Options{RepoName: "none"})
	if is, err := IsMountPoint(f.w, "dev/shm"); !is {
		objecttest.Skip(t, "no file system is mounted at /dev/shm:", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "kist")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir[1:]
}

// A folder where a file system is mounted is an anchor, as long as a path below it is read.
func TestRecheckMount(t *testing.T) {
	dir := shmDir(t)
	f := newReal(t)
	f.root = "/"
	f.write(dir+"/a", "1")
	f.write("tmp/"+filepath.Base(dir)+"/b", "2")
	t.Cleanup(func() { os.RemoveAll("/tmp/" + filepath.Base(dir)) })
	f.open(Options{RepoName: "none"})

	var anchors Anchors
	f.scan(ScanOptions{Paths: []string{dir, "tmp/" + filepath.Base(dir)}, Anchors: &anchors})
	at := slices.IndexFunc(anchors.list, func(a anchor) bool { return a.path == "dev/shm" })
	if at < 0 {
		t.Fatalf("the anchors are %+v, want dev/shm among them", anchors.list)
	}
	if away := anchors.Recheck(f.w); len(away) > 0 {
		t.Errorf("Recheck returned %+v, want nothing", away)
	}

	anchors.list[at].dev++ // as if another file system had been there
	if away := anchors.Recheck(f.w); len(away) != 1 || away[0].Path != "dev/shm" {
		t.Errorf("Recheck returned %+v, want dev/shm", away)
	}
}

// OneFileSystem leaves out a mounted file system, except the roots on it.
func TestScanRootOnMount(t *testing.T) {
	dir := shmDir(t)
	f := newReal(t)
	f.root = "/"
	f.write(dir+"/docs/d", "1")
	f.write(dir+"/films/f", "2")
	o := ScanOptions{Paths: []string{dir}, Exclude: Exclude{OneFileSystem: true, Drop: true}}

	f.open(Options{RepoName: "none", Roots: []string{"dev", dir + "/docs"}})
	same(t, "root below the mount", f.scan(o), []string{
		"untracked dev/", "untracked dev/shm/", "untracked " + dir + "/", "untracked " + dir + "/docs/", "untracked " + dir + "/docs/d",
	})
}
