package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// onTmpfs runs the test in a child process with a small tmpfs of its own. It returns
// a shell on the tmpfs in the child, and nil in the parent when the child has ended.
func onTmpfs(t *testing.T, options string) *shell {
	needsRoot(t)
	const mounted = "KIST_TEST_MOUNTED"
	if dir := os.Getenv(mounted); dir != "" {
		return &shell{TB: t, dir: dir, program: "kist"}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) { // the user nobody must be able to enter
		if info, err := os.Stat(at); err != nil || info.Mode()&0o001 == 0 && os.Chmod(at, info.Mode()|0o001) != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", fmt.Sprintf(`mount -t tmpfs -o %s none "$0" && exec "$@"`, options), dir,
		self, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", (10 * commandTime).String())
	cmd.Env = append(os.Environ(), mounted+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return nil
}

// TestLittleAddressSpace checks that kist stores more content than its address space has room
// for.
func TestLittleAddressSpace(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs much address space")
	}
	s := &shell{TB: t, dir: tempDir(t), program: "kist"}
	s.kist("init")
	f, err := os.Create(s.path("large"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{3}), 600<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	add := s.command(t.Context(), "add", "large")
	program := filepath.Join(t.TempDir(), "kist") // the name makes it kist
	if err := os.Symlink(add.Path, program); err != nil {
		t.Fatal(err)
	}
	add.Args = append([]string{"sh", "-c", `ulimit -v 2500000 && exec "$@"`, "sh", program}, add.Args[1:]...)
	add.Path = "/bin/sh"
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.kist("commit", "-m", "large")
	s.verify()
}

// fill makes a file that leaves free bytes of space on the disk.
func (s *shell) fill(free int64) {
	s.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &st); err != nil {
		s.Fatal(err)
	}
	size := int64(st.Bavail)*st.Bsize - free
	if size <= 0 {
		return
	}
	f, err := os.Create(s.path("../ballast"))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		s.Fatal(err)
	}
}

// wantDiskFull reports whether a command failed because the disk is full. It fails
// the test if the command failed for another reason.
func (s *shell) wantDiskFull(o outcome) bool {
	s.Helper()
	if o.status == 0 {
		return false
	}
	var result struct{ Error struct{ Kind string } }
	for line := range strings.Lines(o.stdout) {
		json.Unmarshal([]byte(line), &result)
	}
	if o.status != 1 || result.Error.Kind != "disk-full" {
		s.Fatalf("error kind %q, want exit status 1 and disk-full: %v", result.Error.Kind, o)
	}
	return true
}

// TestFullDisk checks that a command on a nearly full disk succeeds, or reports the
// full disk and leaves the repository intact. With space, the same command succeeds.
func TestFullDisk(t *testing.T) {
	s := onTmpfs(t, "size=96m")
	if s == nil {
		return
	}
	rng := objecttest.Rand(4)
	sizes := []int64{0, 40 << 10, 4 << 20, 20 << 20, 40 << 20}
	for range objecttest.Rounds(t, 1) - 1 {
		sizes = append(sizes, rng.Int64N(60<<20))
	}
	full := map[string]int{}
	for _, free := range sizes {
		s := s.in("folder")
		s.write(map[string]string{"a/one": "the first version of a file in a commit", "a/two": noise(rng, 2<<20)})
		s.kist("init", "--chunk-size", "64KiB")
		s.kist("add", ".")
		s.kist("commit", "-m", "first")
		s.kist("branch", "first")

		// try runs a command on the full disk. If the command fails, try reruns it with space.
		try := func(args ...string) {
			s.fill(free)
			before := s.readState()
			if s.wantDiskFull(s.run(append(args, "--json")...)) {
				full[args[0]]++
				now := s.readState()
				if args[0] != "checkout" {
					s.wantFiles(now.files, before.files)
				}
				if now.head != before.head || !maps.Equal(now.refs, before.refs) {
					t.Fatalf("%q failed, but refs changed: HEAD = %s, want %s", args, now.head, before.head)
				}
				s.kist("log")
				s.run("status")
				s.verify()
				os.Remove(s.path("../ballast"))
				s.kist(args...)
			}
			os.Remove(s.path("../ballast"))
			s.verify()
		}
		s.write(map[string]string{"a/one": "the second version of a file in a commit", "b/three": noise(rng, 6<<20), "b/four": noise(rng, 1000)})
		try("add", "-A", ".")
		try("commit", "-m", "second")
		want := s.readFiles(".")
		try("checkout", "first")
		try("checkout", "main")
		s.wantFiles(s.readFiles("."), want)
		if got := s.kist("status", "--porcelain"); got != "" {
			t.Errorf("status, want nothing:\n%s", got)
		}
		// Some stored objects are live, others are garbage.
		s.write(map[string]string{"b/three": noise(rng, 4<<20)})
		s.kist("commit", "-a", "--amend", "-m", "second")
		s.kist("branch", "-D", "first")
		s.kist("config", "gc.reflog-expire", "now")
		want = s.readFiles(".")
		try(collectAll...)
		s.kist("restore", "--source", "HEAD~1", "--force", "a/one")
		s.kist("checkout", "--force", "main")
		s.wantFiles(s.readFiles("."), want)
		removeAll(t, s.dir)
	}
	t.Logf("%d sizes; commands that met a full disk: %v", len(sizes), full)
	for _, command := range []string{"add", "commit", "checkout", "gc"} {
		if full[command] == 0 {
			t.Errorf("%s never met a full disk", command)
		}
	}
}

// TestBackupFullDisk checks that a backup on a nearly full disk is complete, or reports the
// full disk. If its add failed, it makes no commit. With space, the next backup is complete.
func TestBackupFullDisk(t *testing.T) {
	s := onTmpfs(t, "size=96m")
	if s == nil {
		return
	}
	p := newPlaceInFolder(t)
	rng := objecttest.Rand(9)
	s = s.in("folder")
	s.write(map[string]string{"a/one": "the first version of a file in a commit"})
	s.kist("init", "--chunk-size", "64KiB")
	s.kist("remote", "add", "origin", p.url)

	last := s.backup(0).Commit
	full := 0
	for _, free := range []int64{0, 40 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20} {
		s.write(map[string]string{"a/one": noise(rng, 300), "b/two": noise(rng, 5<<20)})
		s.fill(free)
		o := s.run("backup", "--json")
		var b backedUp
		if err := json.Unmarshal([]byte(o.stdout), &b); err != nil || b.Exit != o.status {
			t.Fatalf("the summary is invalid (%v) or does not match the exit status: %v", err, o)
		}
		if o.status != 0 {
			full++
			failed := slices.IndexFunc(b.Steps, func(st backedUpStep) bool { return st.Outcome == "failed" })
			if failed < 0 || b.Steps[failed].Error.Kind != "disk-full" {
				t.Fatalf("%d bytes free: no step failed with disk-full: %v", free, o)
			}
			if b.Steps[0].Outcome == "failed" && b.Commit != last {
				t.Fatalf("%d bytes free: a commit after a failed add: %v", free, o)
			}
		}

		os.Remove(s.path("../ballast"))
		s.verify()
		want := s.readFiles(".")
		last = s.backup(0).Commit
		s.wantFiles(s.readFiles("."), want)

		if got := s.kist("status", "--porcelain"); got != "" || p.at("main") != last {
			t.Fatalf("main of the remote = %s, want %s; status, want nothing:\n%s", p.at("main"), last, got)
		}
	}
	if full == 0 {
		t.Error("no backup met a full disk")
	}
}

// TestNoInodes checks that a checkout without enough free inodes reports a full disk.
func TestNoInodes(t *testing.T) {
	s := onTmpfs(t, "size=96m,nr_inodes=400")
	if s == nil {
		return
	}
	s.kist("init")
	s.write(map[string]string{"kept": "kept"})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.kist("checkout", "-b", "many")
	for i := range 200 {
		s.write(map[string]string{fmt.Sprintf("%d", i): "small"})
	}
	s.kist("add", ".")
	s.kist("commit", "-m", "many")
	s.kist("checkout", "main")
	for i := range 200 {
		s.write(map[string]string{fmt.Sprintf("ballast/%d", i): ""})
	}
	if !s.wantDiskFull(s.run("checkout", "many", "--json")) {
		t.Error("checkout succeeded without enough free inodes")
	}
	removeAll(t, s.path("ballast"))
	s.kist("checkout", "many")
	if got := s.kist("status", "--porcelain"); got != "" {
		t.Errorf("status, want nothing:\n%s", got)
	}
	s.verify()
}

// TestReadOnly checks that commands that read work without write access, and that the
// others fail with the right kind of error and change nothing. It runs them on a read-only
// file system, and as a user without write permission.
func TestReadOnly(t *testing.T) {
	s := onTmpfs(t, "size=96m")
	if s == nil {
		return
	}
	s = s.in("folder")
	s.write(map[string]string{"a/file": "the first version of a file", "other": "one more"})
	s.kist("init")
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.write(map[string]string{"a/file": "the second version of a file"})
	s.kist("add", ".")
	s.kist("commit", "-m", "second")
	s.write(map[string]string{"other": "changed"})
	if err := os.Chmod(s.path(".kist"), 0o755); err != nil { // for kist-as-nobody
		t.Fatal(err)
	}
	before := s.readState()

	check := func(s *shell, kind string) {
		t.Helper()
		for _, args := range [][]string{
			{"log"}, {"status"}, {"diff"}, {"diff", "HEAD~1"}, {"show"}, {"cat", "HEAD~1:a/file"}, {"ls", "-r", "HEAD"}, {"branch"}, {"reflog"},
			{"verify", "--read-data"}, {"add", "-n", "."},
		} {
			s.kist(args...)
		}
		for _, args := range [][]string{
			{"add", "."}, {"commit", "-a", "-m", "third"}, {"commit", "--allow-empty", "-m", "third"}, {"checkout", "HEAD~1", "--force"}, {"branch", "new"}, {"tag", "new"},
			{"rm", "other", "--force"}, {"mv", "other", "new"}, {"reset", "--hard", "HEAD~1"}, {"restore", "other"}, {"config", "user.name", "Anna"}, {"gc"},
		} {
			o := s.exits(1, append(args, "--json")...)
			var result struct{ Error struct{ Kind string } }
			if err := json.Unmarshal([]byte(o.stdout), &result); err != nil || result.Error.Kind != kind {
				t.Errorf("want an error of kind %s: %v", kind, o)
			}
		}
	}
	remount := func(option string) {
		if out, err := exec.Command("mount", "-o", "remount,"+option, filepath.Dir(s.dir)).CombinedOutput(); err != nil {
			t.Fatalf("remount %s: %v: %s", option, err, out)
		}
	}
	remount("ro")
	check(s, "read-only")
	remount("rw")
	s.trust()
	nobody := *s
	nobody.program = "kist-as-nobody"
	check(&nobody, "permission")
	if diff := s.readState().diff(before); len(diff) > 0 {
		t.Errorf("the repository has changed:\n%s", strings.Join(diff, "\n"))
	}

	// Commands that take a lock, or copy files of a remote, work without.
	s.kist("remote", "add", "origin", "../remote")
	s.kist("push")
	removeAll(t, s.path(".kist/maintenance.lock"))
	remount("ro")
	for _, args := range [][]string{
		{"stats"}, {"gc", "-n"}, {"verify", "--remote", "origin"}, {"verify", "--remote", "origin", "--read-data"}, {"remote", "gc", "-n", "origin"}, {"ls-remote"},
	} {
		s.kist(args...)
	}
	remount("rw")
	s.verify()
}

// TestReadOnlyFolder checks that a checkout writes all it can, and names a file that it may not write.
func TestReadOnlyFolder(t *testing.T) {
	s := onTmpfs(t, "size=96m")
	if s == nil {
		return
	}
	s = s.in("folder")
	s.write(map[string]string{"a/file": "the first version of a file", "b/file": "the first version of another"})

	give := func() {
		if err := filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}); err != nil {
			t.Fatal(err)
		}
	}

	give()
	s.program = "kist-as-nobody"
	s.kist("init")
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.write(map[string]string{"a/file": "the second version of a file", "b/file": "the second version of another"})
	s.kist("commit", "-a", "-m", "second")

	if err := os.Chmod(s.path("b"), 0o555); err != nil {
		t.Fatal(err)
	}
	if o := s.exits(3, "checkout", "HEAD~1"); !strings.Contains(o.stderr, "b/file: permission denied") {
		t.Errorf("the checkout does not name b/file: %v", o)
	}
	if got := s.kist("status", "--porcelain"); !strings.Contains(got, "b/file") || strings.Contains(got, "a/file") {
		t.Errorf("status, want only b/file:\n%s", got)
	}
	if err := os.Chmod(s.path("b"), 0o755); err != nil {
		t.Fatal(err)
	}

	s.kist("checkout", "--force", "HEAD")
	if got := s.kist("status", "--porcelain"); got != "" {
		t.Errorf("status, want nothing:\n%s", got)
	}
	s.verify()
}
