package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestRemoteFolderErrors checks the errors for remotes in folders that are missing,
// unreadable or read-only.
func TestRemoteFolderErrors(t *testing.T) {
	s := onTmpfs(t, "size=256m")
	if s == nil {
		return
	}
	around, unused := s.path("remotes"), s.path("unused")
	folder := around + "/remote"
	for _, dir := range []string{folder, unused} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s = s.withTwoCommits("file://" + folder)
	s.kist("fetch") // it records the default branch
	before := s.readState()

	// The remote's folder is missing.
	if err := os.Rename(folder, folder+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	absent := s.path("../no-such-folder/remote")
	for _, args := range remoteCommands("file://"+absent, absent, "get") {
		if args[0] == "push" || args[0] == "fetch" || len(args) == 1 {
			continue // these use the configured remote
		}
		s.fails(15, "no-store", "no-such-folder", args...)
	}
	for _, args := range [][]string{{"push"}, {"fetch"}, {"ls-remote"}} {
		s.fails(15, "no-store", folder, args...)
	}
	if err := os.Rename(folder+"-elsewhere", folder); err != nil {
		t.Fatal(err)
	}

	// The remote's file system is read-only.
	bind := func(options ...string) {
		if out, err := exec.Command("mount", append(options, around, around)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	bind("--bind")
	bind("-o", "remount,bind,ro")
	for _, args := range remoteCommands("file://"+folder, around+"/new", "put") {
		s.fails(16, "permission", "read-only file system", args...)
	}
	s.kist("fetch")
	s.kist("ls-remote")
	if out, err := exec.Command("umount", around).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// The user nobody owns the repository, but not the remote.
	if out, err := exec.Command("chown", "-R", "65534:65534", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.trust()
	s.program = "kist-as-nobody"
	refused := func(reason string, list [][]string) {
		for _, args := range list {
			o := s.exits(16, append(slices.Clone(args), "--json")...)
			if kind, message := o.failed(); kind != "permission" || !strings.Contains(message, reason) {
				t.Errorf("want error kind permission with %q: %v", reason, o)
			}
			if _, err := os.Stat(s.path("clone")); err == nil {
				t.Errorf("left a clone: %v", o)
			}
		}
	}
	refused("permission denied", remoteCommands("file://"+folder, unused, "put"))
	s.kist("fetch")
	s.kist("ls-remote")
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("permission denied", remoteCommands("file://"+folder, unused, "get"))
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	s.program = "kist"
	if diff := s.readState().diff(before); len(diff) > 0 {
		t.Errorf("the repository changed:\n%s", strings.Join(diff, "\n"))
	}
	s.kist("push")
	s.kist("verify", "--remote", "origin", "--read-data")
	s.verify()
}

// TestRemoteFullDisk checks that pushes and clones to a full disk fail without
// damage. With free space, the same command succeeds.
func TestRemoteFullDisk(t *testing.T) {
	s := onTmpfs(t, "size=96m")
	if s == nil {
		return
	}
	rng := rand.New(rand.NewPCG(7, 1))
	store := s.path("remote")
	if err := os.Mkdir(store, 0o777); err != nil {
		t.Fatal(err)
	}
	away := *s
	away.dir = t.TempDir() // on another disk
	r := away.withTwoCommits(store)
	r.write(map[string]string{"large": noise(rng, 12<<20)})
	r.kist("add", ".")
	r.kist("commit", "-m", "large")
	here := s.in("folder")
	if err := os.Mkdir(here.dir, 0o777); err != nil {
		t.Fatal(err)
	}

	before := r.readState()
	for _, free := range []int64{0, 8 << 10, 5 << 20} {
		here.fill(free)
		r.fails(15, "full", "no space left on device", "push")
		if free == 0 {
			r.fails(15, "full", "no space left on device", "remote", "add", "new", s.path("new"))
		}
		os.Remove(here.path("../ballast"))
		r.kist("verify", "--remote", "origin", "--read-data")
	}
	if diff := r.readState().diff(before); len(diff) > 0 {
		t.Errorf("the repository changed:\n%s", strings.Join(diff, "\n"))
	}
	r.kist("push")
	r.kist("verify", "--remote", "origin", "--read-data")

	for _, free := range []int64{0, 300 << 10, 6 << 20} {
		here.fill(free)
		if !here.wantDiskFull(here.run("clone", "--json", store, "clone")) {
			t.Errorf("the clone succeeded with %d free bytes", free)
		}
		if _, err := os.Stat(here.path("clone/.kist/config")); err == nil {
			here.in("clone").kist("verify", "--read-data")
		}
		os.Remove(here.path("../ballast"))
		here.kist("clone", store, "clone")
		clone := here.in("clone")
		clone.wantFiles(clone.readFiles("."), r.readFiles("."))
		clone.verify()
		removeAll(t, clone.dir)
	}
}
