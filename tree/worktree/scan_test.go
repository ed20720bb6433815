package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
)

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestScanUntracked(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("a.txt", "1")
		f.write("a/b/c", "2")
		f.write("a/d", "3")
		f.mkdir("empty")
		f.symlink("a", "link")
		same(t, "scan", f.scan(ScanOptions{}), []string{
			"untracked a/", "untracked a/b/", "untracked a/b/c", "untracked a/d", "untracked a.txt", "untracked empty/", "untracked link",
		})
		same(t, "collapsed", f.scan(ScanOptions{CollapseUntracked: true}), []string{
			"untracked a/", "untracked a.txt", "untracked empty/", "untracked link",
		})
		same(t, "tracked only", f.scan(ScanOptions{NoUntracked: true}), []string{})
		found, err := f.w.Scan(ctx, nil, ScanOptions{Paths: []string{"link"}})
		f.check(err)
		if len(found) != 1 || found[0].Type != object.TypeSymlink || found[0].Dir || found[0].Mode != 0o777 {
			t.Errorf("link: %+v", found)
		}
	})
}

func TestScanChanges(t *testing.T) {
	f := newReal(t)
	for _, path := range []string{"same", "changed", "gone", "dir/a", "dir/sub/b", "todir", "tolink", "chmod", "fifo", "kept/x", "racy"} {
		f.write(path, "content of "+path)
	}
	f.mkdir("tofile/sub")
	f.write("tofile/sub/x", "1")
	f.mkdir("gonedir/sub")
	f.write("gonedir/sub/x", "1")
	f.mkdir("chmoddir")
	f.symlink("same", "link")
	f.symlink("same", "relinked")
	f.stage()
	same(t, "nothing", f.scan(ScanOptions{}), []string{})

	f.write("changed", "content of CHANGED")
	f.remove("gone")
	f.remove("todir")
	f.write("todir/in/it", "1")
	f.remove("tolink")
	f.symlink("x", "tolink")
	f.remove("tofile")
	f.write("tofile", "a file")
	f.remove("gonedir")
	f.check(os.Chmod(filepath.Join(f.root, "chmod"), 0o755))
	f.check(os.Chmod(filepath.Join(f.root, "chmoddir"), 0o700))
	f.remove("fifo")
	f.check(syscall.Mkfifo(filepath.Join(f.root, "fifo"), 0o644))
	f.check(syscall.Mkfifo(filepath.Join(f.root, "fifo2"), 0o644))
	f.write("dir/new", "1")
	f.remove("relinked")
	f.symlink("other", "relinked")
	racy := *f.idx.Entry("racy")
	racy.Stat.ReadAt = racy.Stat.MTime
	f.check(f.idx.Set("racy", racy))

	same(t, "scan", f.scan(ScanOptions{}), []string{
		"modified changed", "modified chmod", "mode changed chmoddir/", "untracked dir/new",
		"special file fifo", "special file fifo2", "deleted gone", "deleted gonedir/", "deleted gonedir/sub/", "deleted gonedir/sub/x",
		"modified racy", "modified relinked",
		"type changed todir/", "untracked todir/in/", "untracked todir/in/it",
		"type changed tofile", "deleted tofile/sub/", "deleted tofile/sub/x", "type changed tolink",
	})
	same(t, "tracked", f.scan(ScanOptions{NoUntracked: true}), []string{
		"modified changed", "modified chmod", "mode changed chmoddir/",
		"special file fifo", "deleted gone", "deleted gonedir/", "deleted gonedir/sub/", "deleted gonedir/sub/x",
		"modified racy", "modified relinked", "type changed todir/",
		"type changed tofile", "deleted tofile/sub/", "deleted tofile/sub/x", "type changed tolink",
	})
	changed, unchanged := f.confirm()
	var states []string
	for _, c := range changed {
		if c.State == Modified || c.State == ModeChanged {
			states = append(states, c.State.String()+" "+c.Path)
		}
	}
	same(t, "confirmed", states, []string{"modified changed", "mode changed chmod", "mode changed chmoddir", "modified relinked"})
	if len(unchanged) != 1 || unchanged[0].Path != "racy" {
		t.Errorf("unchanged files are %v, want racy", unchanged)
	}
	f.idx.SetStat("racy", func() index.Stat { s := unchanged[0].Stat; s.ReadAt += 2 * index.RacyWindow; return s }())
	same(t, "refreshed", f.scan(ScanOptions{Paths: []string{"racy"}}), []string{})
}

func TestScanPaths(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("a/b/c", "1")
		f.write("a/b/d", "2")
		f.write("a/e", "3")
		f.write("f", "4")
		f.stage()
		f.remove("a/b/c")
		f.remove("a/e")
		f.remove("f")
		f.write("a/new/x", "5")
		f.write("f/g", "6")

		for _, test := range []struct {
			paths []string
			want  []string
		}{
			{[]string{}, []string{}},
			{[]string{"a/e"}, []string{"deleted a/e"}},
			{[]string{"a/b/c", "a/b"}, []string{"deleted a/b/c"}},
			{[]string{"a/b", "a/b/c"}, []string{"deleted a/b/c"}},
			{[]string{"./a/new/x"}, []string{"untracked a/new/", "untracked a/new/x"}},
			{[]string{"a/new"}, []string{"untracked a/new/", "untracked a/new/x"}},
			{[]string{"f/g"}, []string{"type changed f/", "untracked f/g"}},
			{[]string{"nope", "a/nope/x"}, []string{"absent a/nope/x", "absent nope"}},
			{[]string{"a/b/c/x", "a/b/c"}, []string{"deleted a/b/c"}},
			{[]string{"a/b/c/x"}, []string{"absent a/b/c/x"}},
		} {
			got := f.scan(ScanOptions{Paths: test.paths})
			if f.root == "" { // memfs has no stat data, so tracked files count as modified
				for i := len(got) - 1; i >= 0; i-- {
					if strings.HasPrefix(got[i], "modified") {
						got = append(got[:i], got[i+1:]...)
					}
				}
			}
			same(t, strings.Join(test.paths, " "), got, test.want)
		}

		for _, path := range []string{"..", "a/../..", "/etc", ".kist", ".KIST/config", "a/.kist"} {
			if _, err := f.w.Scan(ctx, f.idx, ScanOptions{Paths: []string{path}}); err == nil {
				t.Errorf("scanned %q", path)
			}
		}
	})
}

func TestScanIgnored(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("tracked.o", "1")
		f.write("build/kept", "2")
		f.stage()
		f.write(".kistignore", "*.o\nbuild/\n")
		f.write("sub/.kistignore", "local\n")
		f.write("x.o", "3")
		f.write("build/new", "4")
		f.write("sub/local", "5")
		f.write("sub/build/deep/x", "6")
		f.write("local", "7")
		f.remove("tracked.o")
		f.remove("build/kept")
		f.mkdir("build")
		same(t, "scan", f.scan(ScanOptions{}), []string{
			"untracked .kistignore", "deleted build/kept", "untracked local", "untracked sub/", "untracked sub/.kistignore", "deleted tracked.o",
		})
		same(t, "list", f.scan(ScanOptions{ListIgnored: true}), []string{
			"untracked .kistignore", "deleted build/kept", "ignored build/new", "untracked local", "untracked sub/", "untracked sub/.kistignore",
			"ignored sub/build/", "ignored sub/build/deep/", "ignored sub/build/deep/x", "ignored sub/local", "deleted tracked.o", "ignored x.o",
		})
		same(t, "include", f.scan(ScanOptions{IncludeIgnored: true, Paths: []string{"sub", "x.o"}}), []string{
			"untracked sub/", "untracked sub/.kistignore", "untracked sub/build/", "untracked sub/build/deep/", "untracked sub/build/deep/x", "untracked sub/local", "untracked x.o",
		})
		same(t, "named", f.scan(ScanOptions{Paths: []string{"x.o", "sub/build/deep/x", "build/kept"}}), []string{
			"deleted build/kept", "untracked sub/", "ignored sub/build/deep/x", "ignored x.o",
		})
	})
}

// Scan does not use a .kistignore that is no regular file or is too large.
func TestIgnoreFileRefused(t *testing.T) {
	f := newReal(t)
	f.write("elsewhere", "*\n")
	f.symlink("elsewhere", ".kistignore")
	f.write("x", "1")
	same(t, "symlink", f.scan(ScanOptions{}), []string{"untracked .kistignore", "untracked elsewhere", "untracked x"})
	f.remove(".kistignore")
	f.check(syscall.Mkfifo(filepath.Join(f.root, ".kistignore"), 0o644))
	same(t, "fifo", f.scan(ScanOptions{}), []string{"special file .kistignore", "untracked elsewhere", "untracked x"})
	f.remove(".kistignore")
	f.mkdir(".kistignore")
	same(t, "folder", f.scan(ScanOptions{}), []string{"untracked .kistignore/", "untracked elsewhere", "untracked x"})
	f.remove(".kistignore")
	f.write(".kistignore", strings.Repeat("x\n", 1<<19)+"\n")
	same(t, "large", f.scan(ScanOptions{}), []string{"unreadable .kistignore", "untracked elsewhere", "untracked x"})
}

func TestScanCaches(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("cache/CACHEDIR.TAG", CacheTag.Header+"\n# more\n")
		f.write("cache/a/b", "1")
		f.write("cache/c", "2")
		f.write("no/CACHEDIR.TAG", "Signature: something else")
		f.write("no/d", "3")
		same(t, "excluded", f.scan(ScanOptions{Exclude: Exclude{Markers: []Marker{CacheTag}}}), []string{
			"untracked cache/", "untracked cache/CACHEDIR.TAG", "untracked no/", "untracked no/CACHEDIR.TAG", "untracked no/d",
		})
		same(t, "not asked for", f.scan(ScanOptions{Paths: []string{"cache"}}), []string{
			"untracked cache/", "untracked cache/CACHEDIR.TAG", "untracked cache/a/", "untracked cache/a/b", "untracked cache/c",
		})
	})
}

// Exclusions hide untracked paths. With Drop, tracked paths count as deleted.
func TestScanExclude(t *testing.T) {
	f := newReal(t)
	patterns, err := ignore.Parse([]byte("*.log\n!keep.log\n/d/\n"), "")
	f.check(err)
	exclude := Exclude{
		Patterns: new(ignore.Matcher).Push(patterns), LargerThan: 4,
		Markers: []Marker{{Name: ".nobackup"}, {Name: "tag", Header: "yes"}},
	}
	for path, content := range map[string]string{
		"a.log": "1", "keep.log": "1", "large": "12345", "small": "1234", "d/x": "1", "e/d/x": "1",
		"m/.nobackup": "", "m/x": "1", "m/n/x": "1", "n/tag": "no", "n/x": "1", "y/tag": "yes", "y/x": "1",
	} {
		f.write(path, content)
	}
	untracked := []string{
		"untracked e/", "untracked e/d/", "untracked e/d/x", "untracked keep.log",
		"untracked m/", "untracked m/.nobackup", "untracked n/", "untracked n/tag", "untracked n/x", "untracked small",
		"untracked y/", "untracked y/tag",
	}
	same(t, "untracked", f.scan(ScanOptions{Exclude: exclude}), untracked)
	same(t, "named", f.scan(ScanOptions{Exclude: exclude, Paths: []string{"d", "large", "m/x"}}), []string{
		"ignored d/", "ignored large", "untracked m/", "ignored m/x",
	})

	f.stage()
	same(t, "tracked", f.scan(ScanOptions{Exclude: exclude}), []string{})
	exclude.Drop = true
	dropped := []string{
		"deleted a.log", "deleted d/", "deleted d/x", "deleted large",
		"deleted m/n/", "deleted m/n/x", "deleted m/x", "deleted y/x",
	}
	same(t, "dropped", f.scan(ScanOptions{Exclude: exclude}), dropped)
	same(t, "named and dropped", f.scan(ScanOptions{Exclude: exclude, Paths: []string{"d", "m/n", "small"}}), []string{
		"deleted d/", "deleted d/x", "deleted m/n/", "deleted m/n/x",
	})
	f.write("d/new", "1")
	f.write("m/n/new", "1")
	same(t, "new in a dropped folder", f.scan(ScanOptions{Exclude: exclude}), dropped)
}

func TestScanNested(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write("sub/.kist/config", "1")
		f.write("sub/file", "2")
		f.write(".KIST/config", "3")
		f.write("other/kist~1", "4")
		same(t, "scan", f.scan(ScanOptions{}), []string{
			"nested repository .KIST/", "untracked other/", "nested repository other/kist~1",
			"untracked sub/", "nested repository sub/.kist/", "untracked sub/file",
		})
	})
}

func TestScanNames(t *testing.T) {
	f := newReal(t)
	names := []string{
		" ", "a b", "new\nline", "tab\t", "\xff\xfe invalid", "-dash", "back\\slash", "~", "*", "?", "[x]", "#", "!", "\x01\x7f",
		strings.Repeat("n", 255), "é", "e\u0301", "日本語", "...", ".hidden", "CON", "a:b", "trailing. ",
	}
	for _, name := range names {
		f.write(name+"/"+name, name)
	}
	if got := f.scan(ScanOptions{}); len(got) != 2*len(names) {
		t.Errorf("found %d paths, want %d: %q", len(got), 2*len(names), got)
	}
	f.stage()
	same(t, "after", f.scan(ScanOptions{}), []string{})
	for _, name := range names {
		e := f.idx.Entry(name + "/" + name)
		if e == nil || int(e.Size) != len(name) {
			t.Errorf("%q: staged as %+v", name, e)
		}
	}
}

// A path longer than the kernel accepts can be written, scanned, stored and removed.
func TestDeep(t *testing.T) {
	f := newReal(t)
	name := strings.Repeat("d", 100)
	path := strings.Repeat(name+"/", 500) + "file"
	e := f.file("deep down")
	applied, err := f.w.Apply(ctx, f.store, []Op{{Path: path, New: e}}, ApplyOptions{})
	f.check(err)
	if len(applied) != 1 {
		t.Fatalf("applied %v, want one operation", applied)
	}
	if got := f.scan(ScanOptions{}); len(got) != 501 || got[500] != "untracked "+path {
		t.Fatalf("found %d paths, want 501", len(got))
	}

	f.stage()
	same(t, "after", f.scan(ScanOptions{}), []string{})
	stored, err := f.w.Store(ctx, object.Discard, path)
	f.check(err)
	if string(stored.Entry.Inline) != "deep down" {
		t.Errorf("stored %+v", stored.Entry)
	}

	ops := []Op{{Path: path, Old: f.idx.Entry(path)}}
	for at := range f.idx.Dirs() {
		if at != "" {
			ops = append(ops, Op{Path: at})
		}
	}

	_, err = f.w.Apply(ctx, f.store, ops, ApplyOptions{})
	f.check(err)
	if f.w.Exists(name) {
		t.Errorf("%s was not removed", name)
	}
}

// Scan reports a folder below the depth limit as unreadable, and stops there.
func TestTooDeep(t *testing.T) {
	f := newReal(t)
	f.mkdir("d" + strings.Repeat("/d", object.MaxDepth-1))
	f.stage()
	same(t, "as deep as can be", f.scan(ScanOptions{}), []string{})
	f.idx = index.New()
	f.mkdir("d" + strings.Repeat("/d", object.MaxDepth))
	got := f.scan(ScanOptions{})
	if last := got[len(got)-1]; len(got) != object.MaxDepth || !strings.HasPrefix(last, "unreadable d/") {
		t.Errorf("found %d paths, the last is %.40q; want %d and an unreadable one", len(got), last, object.MaxDepth)
	}
}

func TestScanCancelled(t *testing.T) {
	f := newReal(t)
	f.write("a", "1")
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.w.Scan(ctx, nil, ScanOptions{}); err != context.Canceled {
		t.Errorf("error %v, want Canceled", err)
	}
}

// A folder with so many names that several workers share it has the same result.
func TestScanWide(t *testing.T) {
	f := newReal(t)
	f.w.opt.Jobs = 4
	f.write("wide/.kistignore", "*.tmp\n")

	const files = wideFolder + 3*wideStep
	for i := range files {
		f.write(fmt.Sprintf("wide/f%05d", i), "content")
	}
	f.stage()
	same(t, "nothing", f.scan(ScanOptions{}), []string{})

	want := []string{}
	for i := range files {
		path := fmt.Sprintf("wide/f%05d", i)
		switch i % (files / 20) {
		case 1:
			f.remove(path)
			want = append(want, "deleted "+path)
		case 2:
			f.write(path, "other content")
			want = append(want, "modified "+path)
		case 3:
			f.write(path+"x", "new")
			f.write(path+".tmp", "ignored")
			want = append(want, "untracked "+path+"x")
		case 4:
			f.remove(path)
			f.write(path+"/below", "in a folder")
			want = append(want, "type changed "+path+"/", "untracked "+path+"/below")
		}
	}

	same(t, "changes", f.scan(ScanOptions{}), want)
}

func TestListingSort(t *testing.T) {
	var l listing
	l.sortNames()
	names := []string{"note-10", "note-1", "note-000000002", "note-000000001", "note-\xff", "note-", "note-0000000", "note-00000000", "note-0000"}
	for i := range names {
		for j, name := range slices.Concat(names[i:], names[:i]) {
			l.addName(name, uint32(j))
		}
		l.sortNames()
		for j := range l.entries[1:] {
			if l.nameAt(j) >= l.nameAt(j+1) {
				t.Errorf("%q comes before %q", l.nameAt(j), l.nameAt(j+1))
			}
		}
		l.reset()
	}
}
