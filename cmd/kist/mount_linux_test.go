package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object/objecttest"
)

// mounted is a running kist mount process.
type mounted struct {
	*shell // in the mounted folder
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// mount starts kist mount on a new folder and waits until the folder is mounted. The options
// go before the folder, the arguments in rev after it.
func (s *shell) mount(rev []string, options ...string) *mounted {
	s.Helper()
	needsFUSE(s)
	dir := filepath.Join(s.TempDir(), "history")
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}

	args := slices.Concat([]string{"mount", "--json"}, options, []string{dir}, rev)
	m := &mounted{shell: s.in(dir), cmd: s.command(context.Background(), args...)}
	m.cmd.Stderr = &m.stderr
	stdout, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}

	s.Cleanup(func() {
		m.cmd.Process.Kill()
		m.cmd.Wait()
		syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	line, _ := bufio.NewReader(stdout).ReadBytes('\n')

	var v struct{ Dir string }
	if err := json.Unmarshal(line, &v); err != nil || v.Dir != dir {
		m.cmd.Process.Kill()
		m.cmd.Wait()
		s.Fatalf("kist mount prints %q, %v, want the folder %s: %s", line, err, dir, &m.stderr)
	}
	return m
}

// end sends a signal and checks that the mount ends without an error. It returns the warnings.
func (m *mounted) end(sig os.Signal) string {
	m.Helper()
	if err := m.cmd.Process.Signal(sig); err != nil {
		m.Error(err)
	}
	if err := m.cmd.Wait(); err != nil {
		m.Errorf("kist mount: %v: %s", err, &m.stderr)
	}
	if list, err := os.ReadDir(m.dir); err != nil || len(list) > 0 {
		m.Errorf("the unmounted folder has %v, %v, want nothing", list, err)
	}
	return m.stderr.String()
}

// same checks with diff that two folders have the same files.
func (s *shell) same(a, b string) {
	s.Helper()
	if out, err := exec.Command("diff", "-r", "--no-dereference", "-x", ".kist", s.path(a), s.path(b)).CombinedOutput(); err != nil {
		s.Errorf("diff of %s and %s: %v\n%.2000s", a, b, err, out)
	}
}

func TestMount(t *testing.T) {
	s := newShell(t)
	s.kist("init", "--metadata", "full")
	files := map[string]string{"big": string(kisttest.Noise(3, 5<<20)), "dir/sub/x": "x", "odd \xff\nname": "odd", "empty": ""}
	for i := range 300 {
		files[fmt.Sprintf("many/%d", i)] = fmt.Sprint(i)
	}
	s.write(files)
	if err := errors.Join(os.Symlink("../big", s.path("dir/link")), os.Chmod(s.path("dir/sub/x"), 0o4751),
		os.Chown(s.path("empty"), 12, 34), unix.Setxattr(s.path("big"), "user.color", []byte("blue"), 0),
		syscall.Mkfifo(s.path("fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s.kist("add", ".")
	s.commit("first")
	s.kist("tag", "v1")
	s.write(map[string]string{"dir/sub/x": "changed"})
	s.kist("add", ".")
	second := s.commit("second")
	if err := os.Remove(s.path("fifo")); err != nil { // diff compares no FIFOs
		t.Fatal(err)
	}

	m := s.mount(nil)
	os.Rename(s.path("dir/sub/x"), s.path("kept"))
	s.same(m.path("latest/dir"), m.path("branches/main/dir"))
	os.Rename(s.path("kept"), s.path("dir/sub/x"))
	list, err := filepath.Glob(m.path("commits/*-" + second[:8]))
	if err != nil || len(list) != 1 {
		t.Fatalf("folders of the second commit: %q, %v, want one", list, err)
	}
	for _, name := range []string{"many", "dir", "big"} {
		s.same(name, filepath.Join(list[0], name))
	}
	for name, want := range map[string]string{"tags/v1/dir/sub/x": "x", "versions/dir/sub/x@1": "x", "versions/dir/sub/x@2": "changed", "latest/odd \xff\nname": "odd"} {
		if data, err := os.ReadFile(m.path(name)); string(data) != want {
			t.Errorf("%q has %q, %v, want %q", name, data, err, want)
		}
	}
	for name, want := range map[string]error{strings.Repeat("n", 255): syscall.ENOENT, strings.Repeat("n", 256): syscall.ENAMETOOLONG} {
		for _, dir := range []string{"latest/", "versions/", "branches/"} {
			if _, err := os.Lstat(m.path(dir + name)); !errors.Is(err, want) {
				t.Errorf("lstat of a name of %d bytes in %s: %v, want %v", len(name), dir, err, want)
			}
		}
	}
	value := make([]byte, 100)
	if n, err := unix.Getxattr(m.path("latest/big"), "user.color", value); err != nil || string(value[:n]) != "blue" {
		t.Errorf("xattr user.color is %q, %v, want blue", value, err)
	}
	if n, err := unix.Listxattr(m.path("latest/big"), value); err != nil || string(value[:n]) != "user.color\x00" {
		t.Errorf("xattrs are %q, %v, want user.color", value[:max(n, 0)], err)
	}
	var a, b syscall.Stat_t
	for _, name := range []string{"empty", "dir/sub/x", "big", "dir"} {
		if err := errors.Join(syscall.Lstat(s.path(name), &a), syscall.Lstat(m.path("latest/"+name), &b)); err != nil {
			t.Fatal(err)
		}
		if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Mtim != b.Mtim || a.Size != b.Size && a.Mode&syscall.S_IFDIR == 0 {
			t.Errorf("stat of %s is %+v, want %+v", name, b, a)
		}
	}
	if err := syscall.Lstat(m.path("latest/fifo"), &b); err != nil || b.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		t.Errorf("fifo has mode %o, %v, want a FIFO", b.Mode, err)
	}
	for _, err := range []error{os.WriteFile(m.path("latest/new"), nil, 0o644), os.Remove(m.path("latest/big")), os.Mkdir(m.path("branches/x"), 0o755)} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("a change in the mount returns %v, want EROFS", err)
		}
	}
	if warnings := m.end(syscall.SIGTERM); warnings != "" {
		t.Errorf("warnings: %s", warnings)
	}

	v1 := s.mount([]string{"v1"})
	if data, err := os.ReadFile(v1.path("dir/sub/x")); string(data) != "x" {
		t.Errorf("dir/sub/x in v1 is %q, %v, want x", data, err)
	}
	v1.end(syscall.SIGHUP)
}

func TestMountFollowsHistory(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"file": "one"})
	s.kist("add", ".")
	s.commit("first")
	m := s.mount(nil)
	wait := func(name, want string) {
		t.Helper()
		for range 600 {
			if data, err := os.ReadFile(m.path(name)); err == nil && string(data) == want {
				return
			}
			time.Sleep(50 * time.Millisecond) // the kernel caches names for a second
		}
		t.Fatalf("%s never becomes %q", name, want)
	}
	wait("latest/file", "one")
	s.write(map[string]string{"file": "two"})
	s.commit("second")
	s.kist("branch", "side")
	wait("latest/file", "two")
	wait("branches/side/file", "two")
	wait("versions/file@2", "two")
	s.write(map[string]string{"file": strings.Repeat("secret", 20)})
	s.commit("third")
	wait("latest/file", strings.Repeat("secret", 20))
	s.kist("purge", "--yes", "file")
	if _, err := os.ReadFile(m.path("latest/file")); !errors.Is(err, syscall.ENODATA) {
		t.Errorf("reading a purged file: %v, want ENODATA", err)
	}

	open, err := os.Open(m.path("latest"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if text := m.end(os.Interrupt); !strings.Contains(text, "programs still use files there") || !strings.Contains(text, "purged") {
		t.Errorf("warnings are %q, want one about files in use and one about the purge", text)
	}
}

func TestMountOfARemote(t *testing.T) {
	onEachStore(t, func(p *place) {
		s := newShell(p.TB).with(p.env...)
		s.kist("init")
		s.write(map[string]string{"dir/file": "text", "big": string(kisttest.Noise(3, 6<<20))})
		s.kist("add", ".")
		s.commit("first")
		s.kist("remote", "add", "origin", p.url)
		s.kist("push", "origin", "main")
		id := s.commitOf("HEAD")
		for _, options := range [][]string{{"--remote", "origin"}, {"--remote", p.url}} {
			m := s.mount(nil, options...)
			s.same(".", m.path("latest"))
			s.same(".", m.path("branches/main"))
			m.end(syscall.SIGTERM)
		}
		beside := newShell(p.TB).with(p.env...)
		for _, rev := range []string{"main", "HEAD", id[:8]} {
			m := beside.mount([]string{rev}, "--remote", p.url)
			s.same("dir", m.path("dir"))
			m.end(syscall.SIGTERM)
		}
	})
}

// commitOf returns the ID of a commit.
func (s *shell) commitOf(rev string) string {
	s.Helper()
	return strings.TrimSpace(s.kist("rev-parse", rev))
}

func TestMountRefuses(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"file": "one"})
	s.kist("add", ".")
	s.commit("first")
	s.write(map[string]string{"../full/x": "", "inside/x": "", "../a-file": ""})
	if err := errors.Join(os.Mkdir(s.path("../empty"), 0o755), os.Symlink("empty", s.path("../link"))); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"../full": "is not empty", "../link": "is not a folder", "../a-file": "is not a folder", "../none": "does not exist",
		"inside": "it is in the repository", ".kist": "it is in the repository", ".kist/tmp": "it is in the repository", ".": "it is in the repository",
	} {
		if o := s.exits(1, "mount", dir); !strings.Contains(o.stderr, want) {
			t.Errorf("mount on %s: want %q: %v", dir, want, o)
		}
	}
	s.exits(1, "mount", "../empty", "nothing")
	s.exits(2, "mount")
}

// TestMountBesideWriters checks that many readers of a mount get the right bytes while other
// processes commit, collect garbage, repair and delete branches.
func TestMountBesideWriters(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	rnd := objecttest.Rand(71)
	content := func(round, i int) string {
		return string(kisttest.Noise(byte(i), 100+i*40_000)) + fmt.Sprint(round)
	}
	change := func(round int) {
		files := map[string]string{}
		for i := range 8 {
			files[fmt.Sprintf("d%d/f", i)] = content(round, i)
		}
		s.write(files)
		s.kist("add", ".")
		s.commit(fmt.Sprint("round ", round))
	}
	change(0)
	s.kist("tag", "first")
	m := s.mount(nil, "--cache", "1MiB")

	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer func() { stop(); group.Wait() }()
	for reader := range 24 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), uint64(reader)))
		group.Go(func() {
			for ctx.Err() == nil {
				i := rnd.IntN(8)
				root := []string{"tags/first", "latest"}[rnd.IntN(2)]
				name := m.path(fmt.Sprintf("%s/d%d/f", root, i))
				data, err := os.ReadFile(name)
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				noise := kisttest.Noise(byte(i), 100+i*40_000)
				if !bytes.HasPrefix(data, noise) || root == "tags/first" && string(data) != content(0, i) || len(data) > len(noise)+2 {
					t.Errorf("%s has wrong bytes", name)
					return
				}
			}
		})
	}
	for round := range objecttest.Rounds(t, 3) {
		change(round%90 + 1)
		s.kist("branch", "away")
		s.kist("branch", "-D", "away")
		s.kist("gc", "--prune", "now")
		s.kist("verify", "--repair")
	}
	stop()
	group.Wait()
	if text := m.end(syscall.SIGTERM); text != "" {
		t.Errorf("warnings: %s", text)
	}
	s.verify()
}

func TestMountAfterAKill(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"file": "one"})
	s.kist("add", ".")
	s.commit("first")
	m := s.mount(nil)
	m.cmd.Process.Kill()
	m.cmd.Wait()
	if o := s.exits(1, "mount", m.dir); !strings.Contains(o.stderr, "still mounted by a kist that died") || !strings.Contains(o.stderr, "umount") {
		t.Errorf("want a hint to unmount: %v", o)
	}
	if err := syscall.Unmount(m.dir, 0); err != nil {
		t.Error(err)
	}
}
