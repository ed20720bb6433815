package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
)

// A test that needs another user, a private mount or a kill runs this binary again as a child
// process. This environment variable marks the child.
const childVariable = "KIST_WORKTREE_TEST_CHILD"

func isChild() bool { return os.Getenv(childVariable) != "" }

// child returns the command that runs the calling test again in a child.
func child(t *testing.T) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	return cmd
}

// runChild runs the calling test in a child, for example as another user or in a private mount
// name space. It passes the result on.
func runChild(t *testing.T, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := child(t)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		objecttest.Skip(t, string(out))
	}
}

// asNobody makes the calling test run without root's rights. It returns false in the parent,
// after the child has run the test.
func asNobody(t *testing.T) bool {
	if os.Getuid() != 0 {
		return true
	}
	if !isChild() {
		runChild(t, nil)
		return false
	}
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// newNobody is newReal for tests that run asNobody.
func newNobody(t *testing.T) *fixture {
	root, err := os.MkdirTemp("/tmp", "kist-worktree-test-")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, root: root}
	t.Cleanup(func() {
		filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(at, 0o700)
			}
			return nil
		})
		os.RemoveAll(root)
	})
	f.write(".kist/config", "this is the configuration")
	return f.init()
}

// Unreadable files and folders are reported, and do not count as deleted.
func TestUnreadable(t *testing.T) {
	if !asNobody(t) {
		return
	}

	f := newNobody(t)
	for _, path := range []string{"file", "dir/a", "dir/sub/b", "blind/c", "ok"} {
		f.write(path, "content of "+path)
	}
	f.stage()

	for path, mode := range map[string]os.FileMode{"file": 0, "dir": 0, "blind": 0o400} {
		f.check(os.Chmod(filepath.Join(f.root, path), mode))
	}
	f.mkdir("new")
	f.check(os.Chmod(filepath.Join(f.root, "new"), 0))
	got := f.scan(ScanOptions{})
	same(t, "scan", got, []string{
		"mode changed blind/", "unreadable blind/c", "unreadable dir/", "modified file", "unreadable new/",
	})
	changed, _ := f.confirm()
	same(t, "confirmed", lines(changed), []string{
		"mode changed blind/", "unreadable blind/c", "unreadable dir/", "unreadable file", "unreadable new/",
	})

	for _, c := range changed {
		if c.State == Unreadable && !errors.Is(c.Err, fs.ErrPermission) {
			t.Errorf("%s: error %v, want ErrPermission", c.Path, c.Err)
		}
	}

	if _, err := f.w.Store(ctx, object.Discard, "file"); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrGone) {
		t.Errorf("Store: error %v, want ErrPermission", err)
	}
	f.check(f.w.StoreAll(ctx, object.Discard, []*Found{{Path: "dir/a", Type: object.TypeFile}}, func(_ int, _ Stored, err error) error {
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrGone) {
			t.Errorf("StoreAll: error %v, want ErrPermission", err)
		}
		return nil
	}, nil))
	obstacles, err := f.w.Check(ctx, f.idx, []Op{{Path: "file", New: f.file("x")}, {Path: "dir/a", New: f.file("x")}})
	f.check(err)

	for _, o := range obstacles {
		if o.Reason != CannotRead {
			t.Errorf("%s: reason %v, want CannotRead", o.Path, o.Reason)
		}
	}
	if len(obstacles) != 2 {
		t.Errorf("obstacles: %v, want 2", obstacles)
	}
}

// Apply works in a folder that it cannot list.
func TestBlindFolder(t *testing.T) {
	if !asNobody(t) {
		return
	}
	f := newNobody(t)
	f.write("blind/a", "1")
	f.mkdir("blind/dir")
	f.check(os.Chmod(filepath.Join(f.root, "blind"), 0o300))
	f.apply(Op{Path: "blind/b", New: f.file("2")}, Op{Path: "blind/dir/c", New: f.file("3")}, Op{Path: "blind", New: dir(0o500)})
	same(t, "scan", f.scan(ScanOptions{}), []string{"untracked blind/", "untracked blind/a", "untracked blind/b", "untracked blind/dir/", "untracked blind/dir/c"})
}

// Apply changes nothing in a read-only folder, and carries out the other operations.
func TestReadOnlyFolder(t *testing.T) {
	if !asNobody(t) {
		return
	}
	f := newNobody(t)
	f.write("locked/a", "old")
	f.write("locked/b", "old")
	f.mkdir("locked/sub")
	f.check(os.Chmod(filepath.Join(f.root, "locked"), 0o555))
	before := snapshot(t, filepath.Join(f.root, "locked"))
	x := f.file("new")
	applied, err := f.w.Apply(ctx, f.store, []Op{
		{Path: "locked/a", New: x}, {Path: "locked/b", Old: &index.Entry{}}, {Path: "locked/c", New: link("x")}, {Path: "locked/d", New: dir(0o755)},
		{Path: "locked/sub"}, {Path: "locked/sub/x", New: x}, {Path: "open/x", New: x},
	}, ApplyOptions{})
	var failed *ApplyError
	if !errors.As(err, &failed) || failed.Stopped || !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("error %v, want ErrPermission", err)
	}
	var paths []string
	for _, x := range failed.Failed {
		paths = append(paths, x.Path)
	}
	same(t, "failed", paths, []string{"locked/a", "locked/b", "locked/c", "locked/d", "locked/sub"})
	if len(applied) != 2 {
		t.Errorf("applied %v, want 2 operations", applied)
	}
	f.remove("locked/sub/x")
	same(t, "folder", snapshot(t, filepath.Join(f.root, "locked")), before)

	// Apply makes a folder writable for the files in it, and sets its final mode last.
	f.apply(Op{Path: "locked", New: dir(0o500)}, Op{Path: "locked/a", New: x})
	info, err := f.w.Lstat("locked")
	f.check(err)
	if info.Mode != 0o500 {
		t.Errorf("mode %o, want 500", info.Mode)
	}
	same(t, "temporary files", f.temps(), []string(nil))
}

// mounted makes the calling test run in a child, with a small private tmpfs at a path below the
// worktree. It returns nil in the parent, after the child has run the test.
func mounted(t *testing.T, at, size string) *fixture {
	if os.Getuid() != 0 {
		objecttest.Skip(t, "only root can mount a file system")
	}
	if !isChild() {
		runChild(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
		return nil
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		objecttest.Skip(t, fmt.Sprintf("cannot keep mounts to itself: %v", err))
	}
	root := t.TempDir()
	target := filepath.Join(root, at)
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", target, "tmpfs", 0, "size="+size); err != nil {
		objecttest.Skip(t, fmt.Sprintf("cannot mount a file system: %v", err))
	}
	t.Cleanup(func() { syscall.Unmount(target, syscall.MNT_DETACH) })
	f := &fixture{t: t, root: root}
	f.write(".kist/config", "this is the configuration")
	return f.init()
}

func TestFullDisk(t *testing.T) {
	f := mounted(t, ".", "1m")
	if f == nil {
		return
	}

	for _, size := range []int{3000, 300_000} {
		var ops []Op
		for i := range 1_500_000 / size {
			ops = append(ops, Op{Path: fmt.Sprintf("d%d/f%d", i%5, i), New: f.file(random(i, size))})
		}
		applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})
		var failed *ApplyError
		if !errors.As(err, &failed) || !failed.Stopped || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("error %v, want ENOSPC", err)
		}
		if len(applied) == 0 || len(applied) >= len(ops) || len(failed.Failed) > f.w.opt.Jobs {
			t.Errorf("%d applied of %d, %d failed", len(applied), len(ops), len(failed.Failed))
		}

		written := map[string]bool{}
		for _, a := range applied {
			written[a.Path] = true
			s, err := f.w.Store(ctx, object.Discard, a.Path)
			f.check(err)
			if s.Entry.Content != a.New.Content {
				t.Errorf("%s has wrong content", a.Path)
			}
		}

		for _, line := range f.scan(ScanOptions{}) {
			if path, ok := strings.CutPrefix(line, "untracked "); !ok || !strings.HasSuffix(path, "/") && !written[path] {
				t.Errorf("unexpected %q", line)
			}
		}

		same(t, "temporary files", f.temps(), []string(nil))
		for i := range 5 {
			f.remove(fmt.Sprintf("d%d", i))
		}
		f.apply(ops[0])
		f.remove("d0")
	}
}

// Apply works in a folder on another file system than the temporary files.
func TestOtherFileSystem(t *testing.T) {
	f := mounted(t, "sub", "1m")
	if f == nil {
		return
	}
	f.write("sub/old", "old")
	f.apply(Op{Path: "sub/new", New: f.file("new")}, Op{Path: "sub/d/large", New: f.file(random(1, 100_000))}, Op{Path: "sub/l", New: link("x")}, Op{Path: "sub/old", New: link("y")}, Op{Path: "top", New: f.file("top")})
	same(t, "scan", f.scan(ScanOptions{}), []string{
		"untracked sub/", "untracked sub/d/", "untracked sub/d/large", "untracked sub/l", "untracked sub/new", "untracked sub/old", "untracked top",
	})
	same(t, "temporary files", f.temps(), []string(nil))
}

// With OneFileSystem, a mount point is scanned without its content.
func TestScanOneFileSystem(t *testing.T) {
	f := mounted(t, "d/sub", "1m")
	if f == nil {
		return
	}
	f.write("d/x", "1")
	f.write("d/sub/y/z", "2")
	one := ScanOptions{Exclude: Exclude{OneFileSystem: true, Drop: true}}
	same(t, "untracked", f.scan(one), []string{"untracked d/", "untracked d/sub/", "untracked d/x"})
	one.Paths = []string{"d/sub"}
	same(t, "named", f.scan(one), []string{"untracked d/", "untracked d/sub/", "untracked d/sub/y/", "untracked d/sub/y/z"})
	f.stage()
	one.Paths = nil
	same(t, "tracked", f.scan(one), []string{"deleted d/sub/y/", "deleted d/sub/y/z"})

	// A root is scanned even if it is on another file system.
	f.write("e/f/g/h", "3")
	for range 100 { // the order is random
		f.open(Options{Jobs: 1, Roots: []string{"d", "e/f/g"}})
		same(t, "a mount below a root", f.scan(one), []string{"deleted d/sub/y/", "deleted d/sub/y/z", "untracked e/", "untracked e/f/", "untracked e/f/g/", "untracked e/f/g/h"})
		f.open(Options{Jobs: 1, Roots: []string{"d", "e/f/g", "d/sub"}})
		same(t, "a mount that is a root", f.scan(one), []string{"untracked e/", "untracked e/f/", "untracked e/f/g/", "untracked e/f/g/h"})
		f.open(Options{Jobs: 1, Roots: []string{"d/sub", "e/f/g"}})
		same(t, "a root on a mount", f.scan(one), []string{"deleted d/x", "untracked e/", "untracked e/f/", "untracked e/f/g/", "untracked e/f/g/h"})
	}
}

// Apply refuses to touch the repository's folder under a bind mount, too.
func TestMountedRepository(t *testing.T) {
	f := mounted(t, "other", "1m")
	if f == nil {
		return
	}
	f.mkdir("bound")
	f.check(syscall.Mount(filepath.Join(f.root, ".kist"), filepath.Join(f.root, "bound"), "", syscall.MS_BIND, ""))
	defer syscall.Unmount(filepath.Join(f.root, "bound"), syscall.MNT_DETACH)
	before := repository(t, f.root)
	x := f.file("evil")
	for _, op := range []Op{{Path: "bound/config", New: x}, {Path: "bound/new", New: dir(0o755)}, {Path: "bound", New: dir(0o700)}, {Path: "bound/config", Old: &index.Entry{}}, {Path: "bound/l", New: link("x")}} {
		if _, err := f.w.Apply(ctx, f.store, []Op{op}, ApplyOptions{}); !errors.Is(err, errRepository) {
			t.Errorf("%s: error %v, want errRepository", op.Path, err)
		}
	}
	same(t, "repository", repository(t, f.root), before)
	same(t, "scan", f.scan(ScanOptions{}), []string{"nested repository bound/", "untracked other/"})
}

// killOps returns the operations of the killed process, in one of two versions.
func killOps(f *fixture, version int) []Op {
	var ops []Op
	for i := range 60 {
		e := f.file(fmt.Sprintf("version %d of %d ", version, i) + random(version*1000+i, i*i*20))
		ops = append(ops, Op{Path: fmt.Sprintf("d%d/f%d", i%4, i), New: e})
	}
	for i := range 5 {
		ops = append(ops, Op{Path: fmt.Sprintf("d%d/link", i), New: link(fmt.Sprintf("version %d", version))})
	}
	return ops
}

// A kill during Apply leaves each file and symlink old or new.
func TestKilled(t *testing.T) {
	if isChild() {
		f := &fixture{t: t, root: os.Getenv("KIST_WORKTREE_TEST_ROOT")}
		f.init()
		versions := [][]Op{killOps(f, 0), killOps(f, 1)}
		fmt.Println("ready")
		for i := 1; ; i++ {
			f.apply(versions[i%2]...)
		}
	}
	f := newReal(t)
	versions := [][]Op{killOps(f, 0), killOps(f, 1)}
	wants := []map[string]object.Entry{{}, {}}
	for v, ops := range versions {
		for _, op := range ops {
			wants[v][op.Path] = *op.New
		}
	}
	f.apply(versions[0]...)
	mixed := 0
	for round := range 15 {
		cmd := child(t)
		cmd.Env = append(cmd.Env, "KIST_WORKTREE_TEST_ROOT="+f.root)
		out, err := cmd.StdoutPipe()
		f.check(err)
		f.check(cmd.Start())
		buf := make([]byte, 1)
		for range 2 { // "=== RUN" and "ready"
			for buf[0] = 0; buf[0] != '\n'; {
				if _, err := out.Read(buf); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Duration(rand.Int64N(int64(40 * time.Millisecond))))
		f.check(cmd.Process.Kill())
		cmd.Wait()

		found, err := f.w.Scan(ctx, nil, ScanOptions{})
		f.check(err)
		count := [2]int{}
		for _, x := range found {
			if x.Dir {
				continue
			}
			s, err := f.w.Store(ctx, object.Discard, x.Path)
			f.check(err)
			is := -1
			for v := range wants {
				if want, ok := wants[v][x.Path]; ok && want.Content == s.Entry.Content && want.Target == s.Entry.Target && string(want.Inline) == string(s.Entry.Inline) {
					is = v
				}
			}
			if is < 0 {
				t.Fatalf("round %d: %s is neither old nor new", round, x.Path)
			}
			count[is]++
		}
		if count[0]+count[1] != len(versions[0]) {
			t.Fatalf("round %d: %d files, want %d", round, count[0]+count[1], len(versions[0]))
		}
		if count[0] > 0 && count[1] > 0 {
			mixed++
		}
		// A retry succeeds and removes the temporary files of the killed process.
		obstacles, err := f.w.Check(ctx, indexOf(f, versions[0]), versions[1])
		f.check(err)
		if len(obstacles) > 0 {
			t.Fatalf("round %d: obstacles %v, want none", round, obstacles)
		}
		f.apply(versions[round%2]...)
		same(t, "temporary files", f.temps(), []string(nil))
	}
	if mixed == 0 {
		t.Error("no kill hit a running Apply")
	}
}

// indexOf returns an index with the entries that operations write, without stat data.
func indexOf(f *fixture, ops []Op) *index.Index {
	idx := index.New()
	for _, op := range ops {
		f.check(idx.Set(op.Path, index.NewEntry(*op.New, index.Stat{})))
	}
	return idx
}

// Kernels without openat2 get the same protection.
func TestWithoutOpenat2(t *testing.T) {
	noOpenat2.Store(true)
	defer noOpenat2.Store(false)
	t.Run("escape", TestNoEscape)
	t.Run("steps", TestNoEscapeInSteps)
	t.Run("deep", TestDeep)
	if !noOpenat2.Load() {
		t.Error("a test used openat2")
	}
}
