package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
)

// apply applies operations that must all succeed.
func (f *fixture) apply(ops ...Op) []Applied {
	f.t.Helper()
	applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})
	f.check(err)
	return applied
}

// snapshot describes the worktree without the repository's folder.
func (f *fixture) snapshot() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for path, line := range snapshot(f.t, f.root) {
		if path != "." && path != ".kist" && !strings.HasPrefix(path, ".kist/") {
			all[path] = line
		}
	}
	return all
}

// temps returns the names in the folder for temporary files.
func (f *fixture) temps() []string {
	f.t.Helper()
	d, err := f.w.fs.openFolder(".kist/tmp")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f.check(err)
	defer d.Close()
	var l listing
	f.check(d.readNames(&l))
	var names []string
	for i := range l.entries {
		names = append(names, strings.Clone(l.nameAt(i)))
	}
	return names
}

// Check and Apply do not change the caller's list of operations, whatever its order.
func TestOperationsStayTheirCallers(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.file("a"), f.file("b")
		f.check(f.idx.Set("a", index.NewEntry(*f.file("staged"), index.Stat{})))
		for _, ops := range [][]Op{
			{{Path: "a", New: a}, {Path: "b", New: b}},
			{{Path: "b", New: b}, {Path: "a", New: a}},
			{{Path: "a", New: a}, {Path: "a", New: a}, {Path: "b", New: b}},
		} {
			given := slices.Clone(ops)
			_, err := f.w.Check(ctx, f.idx, ops)
			f.check(err)
			applied := f.apply(ops...)
			if !slices.Equal(ops, given) {
				t.Errorf("the list %v was changed to %v", given, ops)
			}
			if len(applied) != 2 || applied[0].New != a || applied[1].New != b {
				t.Errorf("applied %v of %v, want the first two paths once", applied, given)
			}
		}
	})
}

func TestApplyRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		want := map[string]*object.Entry{
			"a":          f.file(""),
			"b c":        f.file("short"),
			"chunk":      f.file(random(1, 1000)),
			"large":      f.file(random(2, 300_000)),
			"zeros":      f.file(strings.Repeat("\x00", 1<<20) + "end"),
			"d":          dir(0o750),
			"d/e":        dir(0o755),
			"d/e/f":      f.file("deep"),
			"d/link":     link("../a"),
			"d/dangling": link("/no/where"),
			"empty":      dir(0o700),
			"implied/x":  f.file("folders above are made"),
		}
		want["chunk"].Mode = 0o755
		var ops []Op
		for path, e := range want {
			ops = append(ops, Op{Path: path, New: e})
		}
		applied := f.apply(ops...)
		if len(applied) != len(ops) {
			t.Fatalf("applied %d operations, want %d", len(applied), len(ops))
		}
		for _, a := range applied {
			stored, err := f.w.Store(ctx, f.store, a.Path)
			f.check(err)
			e := want[a.Path]
			if stored.Entry.Type != e.Type || stored.Entry.Target != e.Target || stored.Entry.Content != e.Content && e.Type != object.TypeDir ||
				string(stored.Entry.Inline) != string(e.Inline) || stored.Entry.Mode != e.Mode {
				t.Errorf("%s is %+v, want %+v", a.Path, stored.Entry, e)
			}
			if f.root != "" && e.Type != object.TypeDir && !a.Stat.Same(stored.Stat) {
				t.Errorf("%s: stat %+v, want %+v", a.Path, a.Stat, stored.Stat)
			}
			if a.New != e {
				t.Errorf("%s: Applied.New is %+v, want the entry of the operation", a.Path, a.New)
			}
		}
		same(t, "temporary files", f.temps(), []string(nil))

		ops = ops[:0]
		for path, e := range want {
			if e.Type == object.TypeDir {
				ops = append(ops, Op{Path: path})
				continue
			}
			old := index.NewEntry(*e, index.Stat{})
			ops = append(ops, Op{Path: path, Old: &old})
		}
		ops = append(ops, Op{Path: "implied"}, Op{Path: "never/was"}, Op{Path: "never/was/x", Old: &index.Entry{Type: object.TypeFile}})
		if applied := f.apply(ops...); len(applied) != len(ops) {
			t.Errorf("applied %d removals, want %d", len(applied), len(ops))
		}
		found, err := f.w.Scan(ctx, nil, ScanOptions{})
		f.check(err)
		same(t, "left", lines(found), []string{})
	})
}

func TestApplyTimesAndModes(t *testing.T) {
	f := newReal(t)
	f.w.opt.SetID = true
	file, large, suid, l, d := f.file("x"), f.file(random(1, 100_000)), f.file("y"), link("x"), dir(0o555)
	suid.Mode = 0o4711
	d.MTime = object.Time{Sec: 12345, Nsec: 6}
	ops := []Op{{Path: "d", New: d}, {Path: "d/file", New: file}, {Path: "d/large", New: large}, {Path: "d/suid", New: suid}, {Path: "d/link", New: l}}
	_, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{RestoreTimes: true})
	f.check(err)
	defer os.Chmod(filepath.Join(f.root, "d"), 0o700)
	for _, op := range ops {
		info, err := f.w.Lstat(op.Path)
		f.check(err)
		if info.Mode != op.New.Mode || info.Stat.MTime != op.New.MTime.Time().UnixNano() {
			t.Errorf("%s: mode %o and time %v, want %o and %v", op.Path, info.Mode, time.Unix(0, info.Stat.MTime), op.New.Mode, op.New.MTime.Time())
		}
	}
	// Without RestoreTimes, the mtime is the time of writing.
	f.apply(Op{Path: "now", New: file})
	info, err := f.w.Lstat("now")
	f.check(err)
	if age := time.Since(time.Unix(0, info.Stat.MTime)); age.Abs() > time.Minute {
		t.Errorf("the mtime is %v old, want the present", age)
	}
}

type reads struct {
	object.Reader
	before func()
}

func (r reads) Get(ctx context.Context, key object.Key) ([]byte, error) {
	r.before()
	return r.Reader.Get(ctx, key)
}

// A new folder gets its final mode before Apply writes files into it. So after a killed checkout
// it is not modified.
func TestApplyKilled(t *testing.T) {
	f := newReal(t)
	file := f.file(random(1, 100_000))
	var looked atomic.Bool
	store := reads{f.store, func() {
		info, err := f.w.Lstat("d")
		if looked.Store(true); err != nil || info.Mode != f.w.opt.writtenMode(0o755) {
			t.Errorf("the folder's mode is %o, error %v", info.Mode, err)
		}
	}}
	_, err := f.w.Apply(ctx, store, []Op{{Path: "d", New: dir(0o755)}, {Path: "d/file", New: file}}, ApplyOptions{})
	if f.check(err); !looked.Load() {
		t.Error("Apply read nothing")
	}
}

func TestApplyIsSparse(t *testing.T) {
	f := newReal(t)
	parts := []string{strings.Repeat("\x00", 3<<20), random(1, 5000), strings.Repeat("\x00", 1<<20), "x", strings.Repeat("\x00", 100_000)}
	content := strings.Join(parts, "")
	e := f.file(content)
	f.apply(Op{Path: "file", New: e})
	data, err := os.ReadFile(filepath.Join(f.root, "file"))
	f.check(err)
	if string(data) != content {
		t.Fatal("the file has wrong content")
	}
	var st syscall.Stat_t
	f.check(syscall.Stat(filepath.Join(f.root, "file"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes use %d bytes of disk", len(content), st.Blocks*512)
	}
}

// Apply replaces each type of file by each other type.
func TestApplyReplaces(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		before := map[string]func(path string){
			"nothing": func(string) {},
			"file":    func(path string) { f.write(path, "old") },
			"link":    func(path string) { f.symlink("target", path) },
			"folder":  func(path string) { f.mkdir(path) },
		}
		after := map[string]*object.Entry{"nothing": nil, "file": f.file("new"), "link": link("new"), "folder": dir(0o755)}
		f.mkdir("target") // a symlink to it must not count as a folder

		for from, make := range before {
			for to, e := range after {
				path := "t/" + from + "-" + to
				f.mkdir("t")
				make(path)
				op := Op{Path: path, New: e}
				if (from == "file" || from == "link") && e == nil {
					op.Old = &index.Entry{Type: object.TypeFile}
				}
				ops := []Op{op}
				if from == "folder" && e != nil {
					ops = []Op{{Path: path}, op}
				}
				f.apply(ops...)
				info, err := f.w.Lstat(path)
				switch {
				case e == nil && !errors.Is(err, fs.ErrNotExist):
					t.Errorf("%s: %+v, error %v, want nothing", path, info, err)
				case e != nil && (err != nil || info.Type != e.Type):
					t.Errorf("%s: %+v, error %v, want type %v", path, info, err, e.Type)
				}
			}
		}

		found, err := f.w.Scan(ctx, nil, ScanOptions{Paths: []string{"target"}})
		f.check(err)
		same(t, "target", lines(found), []string{"untracked target/"})
	})
}

// Apply never removes a folder that is not empty, nor a folder in the place of a file to remove.
func TestApplyKeeps(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("d/untracked", "1")
		f.write("file/untracked", "2")
		f.mkdir("file2")
		old := &index.Entry{Type: object.TypeFile}
		f.apply(Op{Path: "d"}, Op{Path: "d/gone", Old: old}, Op{Path: "file", Old: old}, Op{Path: "file2", Old: old})
		for _, path := range []string{"d/untracked", "file/untracked", "file2"} {
			if !f.w.Exists(path) {
				t.Errorf("%s was removed", path)
			}
		}
		applied, err := f.w.Apply(ctx, f.store, []Op{{Path: "d", New: f.file("x")}, {Path: "e", New: f.file("y")}, {Path: "file", New: link("x")}}, ApplyOptions{})
		var failed *ApplyError
		if !errors.As(err, &failed) || len(failed.Failed) != 2 || failed.Failed[0].Path != "d" || failed.Failed[1].Path != "file" || failed.Stopped {
			t.Errorf("error %v, want failures of d and file", err)
		}
		if len(applied) != 1 || applied[0].Path != "e" || !f.w.Exists("d/untracked") {
			t.Errorf("applied %v, want e", applied)
		}
		same(t, "temporary files", f.temps(), []string(nil))
	})
}

func TestApplyRefuses(t *testing.T) {
	f := newReal(t)
	before := snapshot(t, f.root)
	x := f.file("x")
	bad := f.file("x")
	bad.Mode = 0o10777
	for _, ops := range [][]Op{
		{{Path: "", New: x}}, {{Path: "a//b", New: x}}, {{Path: "./a", New: x}}, {{Path: "a/", New: x}}, {{Path: "/a", New: x}},
		{{Path: "a", New: x}, {Path: "a", New: link("b")}}, {{Path: "a", New: bad}}, {{Path: "ok", New: x}, {Path: ".kist/x", New: x}},
		{{Path: strings.Repeat("n", 256), New: x}}, {{Path: strings.Repeat("d/", object.MaxDepth) + "x", New: x}},
	} {
		if _, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{}); err == nil {
			t.Errorf("Apply accepts %.80v", ops)
		}
	}
	same(t, "worktree", snapshot(t, f.root), before)
	_, err := f.w.Apply(ctx, f.store, []Op{{Path: "device", New: &object.Entry{Type: object.TypeCharDevice}}, {Path: "a", New: x}, {Path: "a", New: x}}, ApplyOptions{})
	if !errors.Is(err, ErrSpecial) || !f.w.Exists("a") {
		t.Errorf("special file: error %v, want ErrSpecial", err)
	}
}

// If the content cannot be read from the store, the old file stays unchanged.
func TestApplyDamage(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		paths := []string{"one", "many", "manifest", "lost", "short"}
		var ops []Op
		for i, path := range paths {
			f.write(path, "old "+path)
			ops = append(ops, Op{Path: path, New: f.file(random(i, 100_000))})
		}
		ops[0].New = f.file(random(9, 900))
		ops[4].New.Size += 5
		ops = append(ops, Op{Path: "intact", New: f.file(random(10, 50_000))})
		store := f.store.(*objecttest.Memory)
		chunk := func(e *object.Entry, n int) object.Key {
			for c, err := range object.Chunks(ctx, store, e.Content, e.Size, 0) {
				f.check(err)
				if n--; n < 0 {
					return object.Key{Kind: object.KindChunk, ID: c.ID}
				}
			}
			panic("too few chunks")
		}
		store.Damage(ops[0].New.Content)
		store.Damage(chunk(ops[1].New, 2))
		store.Damage(ops[2].New.Content)
		store.Delete(chunk(ops[3].New, 3))

		applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})
		var failed *ApplyError
		if !errors.As(err, &failed) || len(failed.Failed) != 5 || failed.Stopped {
			t.Fatalf("error %v, want 5 failures", err)
		}
		for _, x := range failed.Failed {
			if wantLost := x.Path == "lost"; errors.Is(x.Err, object.ErrNotFound) != wantLost || errors.Is(x.Err, object.ErrCorrupt) == wantLost {
				t.Errorf("%s: error %v", x.Path, x.Err)
			}
		}
		if !errors.Is(err, object.ErrCorrupt) || len(applied) != 1 || applied[0].Path != "intact" {
			t.Errorf("applied %v, error %v, want intact", applied, err)
		}
		for _, path := range paths {
			in, err := f.w.Open(path)
			f.check(err)
			buf := make([]byte, 100)
			n, _ := in.Read(buf)
			f.check(in.Close())
			if string(buf[:n]) != "old "+path {
				t.Errorf("%s is %q, want the old content", path, buf[:n])
			}
		}
		same(t, "temporary files", f.temps(), []string(nil))
	})
}

// cancelling is a Reader that cancels a context at the call with number left.
type cancelling struct {
	object.Reader
	left   int
	cancel context.CancelFunc
}

func (c *cancelling) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.Reader.Get(ctx, key)
}

func TestApplyCancelled(t *testing.T) {
	f := newReal(t)
	f.w.opt.Jobs = 1
	ops := []Op{{Path: "d", New: dir(0o755)}, {Path: "d/e", New: dir(0o511)}}
	for i := range 50 {
		ops = append(ops, Op{Path: fmt.Sprintf("f%02d", i), New: f.file(random(i, 500))})
	}
	ctx, cancel := context.WithCancel(ctx)
	applied, err := f.w.Apply(ctx, &cancelling{f.store, 20, cancel}, ops, ApplyOptions{})
	if err != context.Canceled || len(applied) != 19+2 {
		t.Errorf("%d applied, error %v, want %d and Canceled", len(applied), err, 19+2)
	}
	if got := f.snapshot(); len(got) != 19+2 {
		t.Errorf("%d paths exist, want %d", len(got), 19+2)
	}
	for path, want := range map[string]fs.FileMode{"d": 0o755, "d/e": 0o511} {
		if info, err := os.Lstat(filepath.Join(f.root, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
		}
	}
	same(t, "temporary files", f.temps(), []string(nil))
}

// countdown is a context that is cancelled after left calls of Err.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Whenever Apply is cancelled, each folder that it made has its mode. A later Apply does not
// touch folders that exist.
func TestApplyCancelledAnywhere(t *testing.T) {
	const mode = 0o711
	for n := int64(0); ; n++ {
		f := newReal(t)
		f.w.opt.Jobs = 1
		var ops []Op
		for i := range 3 {
			d := fmt.Sprintf("d%d", i)
			ops = append(ops, Op{Path: d, New: dir(mode)}, Op{Path: d + "/e", New: dir(mode)}, Op{Path: d + "/f", New: f.file("content")})
		}
		c := &countdown{Context: ctx}
		c.left.Store(n)
		_, err := f.w.Apply(c, f.store, ops, ApplyOptions{})
		for path := range f.snapshot() {
			info, serr := os.Lstat(filepath.Join(f.root, path))
			f.check(serr)
			if info.IsDir() && info.Mode().Perm() != mode {
				t.Errorf("cancelled at check %d: %s has mode %v, want %v", n, path, info.Mode(), fs.FileMode(mode))
			}
		}
		if err == nil {
			return
		}
		if err != context.Canceled {
			t.Fatal(err)
		}
	}
}

func TestApplyProgress(t *testing.T) {
	f := newReal(t)
	var ops []Op
	want := int64(0)
	for i := range 30 {
		content := random(i, i*1000)
		want += int64(len(content))
		ops = append(ops, Op{Path: fmt.Sprint(i), New: f.file(content)})
	}
	ops = append(ops, Op{Path: "link", New: link("x")}, Op{Path: "dir", New: dir(0o755)})
	var files, bytes int64
	_, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{Progress: func(f, b int64) { files, bytes = f, b }})
	f.check(err)
	if files != 31 || bytes != want {
		t.Errorf("progress is %d files and %d bytes, want 31 and %d", files, bytes, want)
	}
}

// Without a usable folder for temporary files, Apply writes them beside their final paths.
func TestApplyWithoutTemp(t *testing.T) {
	f := newReal(t)
	for _, temp := range []string{"", "file/tmp", "link/tmp"} {
		f.write("file", "1")
		f.remove("link")
		f.symlink(".kist", "link")
		f.w.opt.TempDir = temp
		f.apply(Op{Path: "d/x", New: f.file("2")}, Op{Path: "d/l", New: link("3")})
		same(t, temp, f.scan(ScanOptions{}), []string{"untracked d/", "untracked d/l", "untracked d/x", "untracked file", "untracked link"})
		f.remove("d")
	}
}

func TestCheck(t *testing.T) {
	f := newReal(t)
	for _, path := range []string{"clean", "touched", "edited", "edited-as-new", "chmod", "removed", "dir/a", "dir/b", "todir", "unread"} {
		f.write(path, "content of "+path)
	}
	f.symlink("x", "link")
	f.symlink("x", "relinked")
	f.stage()
	now := time.Now()
	f.check(os.Chtimes(filepath.Join(f.root, "touched"), now, now))
	f.write("edited", "CONTENT of edited")
	f.write("edited-as-new", "as it will be")
	f.check(os.Chmod(filepath.Join(f.root, "chmod"), 0o700))
	f.remove("removed")
	f.remove("relinked")
	f.symlink("y", "relinked")
	f.remove("todir")
	f.write("todir/x", "1")
	f.write("dir/untracked", "2")
	f.write("untracked", "3")
	f.write("same", "as it will be")
	f.write("file-above", "4")
	f.mkdir("folder/sub")
	f.check(syscall.Mkfifo(filepath.Join(f.root, "fifo"), 0o644))
	next := f.file("as it will be")

	for _, test := range []struct {
		name string
		ops  []Op
		want []string
	}{
		{"clean", []Op{{Path: "clean", New: next}, {Path: "link", New: link("z")}}, nil},
		{"clean, removed", []Op{{Path: "clean", Old: f.idx.Entry("clean")}, {Path: "link", Old: f.idx.Entry("link")}}, nil},
		{"only touched", []Op{{Path: "touched", New: next}}, nil},
		{"edited", []Op{{Path: "edited", New: next}}, []string{"edited: local change"}},
		{"edited, removed", []Op{{Path: "edited", Old: f.idx.Entry("edited")}}, []string{"edited: local change"}},
		{"edited as wanted", []Op{{Path: "edited-as-new", New: next}}, nil},
		{"other mode", []Op{{Path: "chmod", New: next}}, []string{"chmod: local change"}},
		{"removed", []Op{{Path: "removed", New: next}}, nil},
		{"removed, to remove", []Op{{Path: "removed", Old: f.idx.Entry("removed")}}, nil},
		{"other link", []Op{{Path: "relinked", New: next}}, []string{"relinked: local change"}},
		{"link as wanted", []Op{{Path: "relinked", New: link("y")}}, nil},
		{"untracked", []Op{{Path: "untracked", New: next}}, []string{"untracked: untracked"}},
		{"untracked, a folder wanted", []Op{{Path: "untracked", New: dir(0o755)}}, []string{"untracked: untracked"}},
		{"untracked, but the same", []Op{{Path: "same", New: next}}, nil},
		{"new", []Op{{Path: "new", New: next}, {Path: "new2/x/y", New: next}}, nil},
		{"below an untracked file", []Op{{Path: "file-above/x/y", New: next}, {Path: "file-above/x", New: dir(0o755)}}, []string{"file-above: untracked"}},
		{"nothing below a file", []Op{{Path: "file-above/x", Old: f.idx.Entry("clean")}}, nil},
		{"below a tracked file that goes", []Op{{Path: "clean", Old: f.idx.Entry("clean")}, {Path: "clean/x", New: next}}, nil},
		{"below a file that becomes a folder", []Op{{Path: "clean", New: dir(0o755)}, {Path: "clean/x", New: next}}, nil},
		{"folder in the way", []Op{{Path: "todir", New: next}}, []string{"todir/x: untracked"}},
		{"folder in the way, to remove", []Op{{Path: "todir", Old: f.idx.Entry("todir")}}, nil},
		{"empty folder in the way", []Op{{Path: "folder/sub", New: next}}, nil},
		{"folder becomes a file", []Op{{Path: "dir"}, {Path: "dir", New: next}, {Path: "dir/a", Old: f.idx.Entry("dir/a")}, {Path: "dir/b", Old: f.idx.Entry("dir/b")}},
			[]string{"dir/untracked: untracked"}},
		{"folder goes", []Op{{Path: "dir"}, {Path: "dir/a", Old: f.idx.Entry("dir/a")}, {Path: "dir/b", Old: f.idx.Entry("dir/b")}}, nil},
		{"fifo", []Op{{Path: "fifo", New: next}}, []string{"fifo: untracked"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obstacles, err := f.w.Check(ctx, f.idx, test.ops)
			f.check(err)
			var got []string
			for _, o := range obstacles {
				got = append(got, o.Path+": "+o.Reason.String())
			}
			same(t, "obstacles", got, test.want)
		})
	}
}
