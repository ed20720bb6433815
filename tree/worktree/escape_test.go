package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// newTrap returns a worktree with symlinks to places that nothing may write to, and a function
// that fails the test if these places changed.
func newTrap(t testing.TB) (f *fixture, check func(what string)) {
	t.Helper()
	f = newReal(t)
	above := t.TempDir()
	outside := filepath.Join(above, "outside")
	root := filepath.Join(above, "inner")
	f.check(os.Rename(f.root, root))
	f.root = root
	f.init()
	f.check(os.MkdirAll(filepath.Join(outside, "dir/sub"), 0o755))

	for _, name := range []string{"config", "secret", "dir/x", "dir/sub/y"} {
		f.check(os.WriteFile(filepath.Join(outside, name), []byte("secret "+name), 0o644))
	}
	f.write(".kist/refs/heads/main", "0123")

	for link, target := range map[string]string{
		"s": ".kist", "s2": "./.kist/", "out": "../outside", "abs": outside, "self": ".", "up": "..", "d/l": "../.kist", "c1": "c2", "c2": ".kist",
		"dangling": "../outside/new", "f": ".kist/config", "fo": "../outside/secret", "loop": "loop", "d/in": "../d", "proc": "/proc/self/cwd",
		"d/deep": "../.kist/refs", "refs": ".kist/refs/heads",
	} {
		f.symlink(target, link)
	}

	outsideBefore, kistBefore := snapshot(t, outside), repository(t, root)
	return f, func(what string) {
		t.Helper()
		same(t, what+": outside", snapshot(t, outside), outsideBefore)
		same(t, what+": .kist", repository(t, root), kistBefore)
		entries, err := os.ReadDir(above)
		f.check(err)
		if len(entries) != 2 {
			t.Errorf("%s: unexpected files beside the root: %v", what, entries)
		}
	}
}

// repository describes the repository's folder without temporary files.
func repository(t testing.TB, root string) map[string]string {
	all := snapshot(t, filepath.Join(root, ".kist"))
	for path := range all {
		if path == "tmp" || strings.HasPrefix(path, "tmp/") {
			delete(all, path)
		}
	}
	return all
}

var evilPaths = []string{
	// Out of the root by name.
	"..", "../x", "../outside/secret", "../../x", "a/../../outside/secret", "d/../../outside/secret", "/", "//", "./..", "a/..", "...//../..",
	// Into the repository's folder by name, and by names that file systems treat as equal.
	".kist", ".kist/config", ".kist/refs/heads/main", "./.kist/config", ".KIST", ".KIST/config", ".Kist/x", ".kiSt/tmp/x", "kist~1/config", "KIST~2",
	".kist::$INDEX_ALLOCATION/config", ".kist:stream", ".kist./config", ".kist /config", ".kist. . /x", ".k\u200cist/config", ".\u200dkist",
	".kist\u200b/x", "\ufeff.kist/x", ".\u212aist/config", ".kist\u2060", "sub/.kist/config", "d/.KIST",
	// Through symlinks.
	"s/config", "s/new", "s/tmp/x", "s2/config", "s/refs/heads/main", "out/secret", "out/new", "out/dir/x", "out/dir/sub/y", "out/new/new", "abs/secret",
	"abs/new", "up/outside/secret", "up/inner/.kist/config", "self/.kist/config", "self/s/config", "self/out/secret", "d/l/config", "d/l/new", "c1/config",
	"c2/new", "dangling/x", "loop/x", "proc/x", "d/in/l/config", "d/deep/heads/main", "refs/main", "refs/new", "s/s/config", "self/self/self/s/config",
	// The symlinks themselves: Apply may remove them, but not their targets.
	"s", "out", "f", "fo", "dangling", "d/l", "refs", "abs", "loop", "up",
	// Invalid names.
	"", ".", "a//b", "a/./b", "a/", "s/", "s/.", "out/..", "a\x00b", "s\x00/config",
}

func evilOps(f *fixture, path string) [][]Op {
	x, old := f.file("evil"), &index.Entry{Type: object.TypeFile}
	ok := Op{Path: "fine", New: x}
	return [][]Op{
		{ok, {Path: path, New: x}},
		{ok, {Path: path, New: f.file(random(1, 50_000))}},
		{ok, {Path: path, New: link("../outside")}},
		{ok, {Path: path, New: dir(0o700)}},
		{ok, {Path: path, New: dir(0o000)}, {Path: path + "/x", New: x}},
		{ok, {Path: path, Old: old}},
		{ok, {Path: path}},
		{ok, {Path: path, Old: old, New: dir(0o777)}, {Path: path + "/config", New: x}},
		{ok, {Path: path, New: link(".kist")}, {Path: path + "/config", New: x}},
	}
}

// No list of operations changes anything outside the root or in the repository's folder.
func TestNoEscape(t *testing.T) {
	f, check := newTrap(t)
	lists, fine := 0, 0
	for _, path := range evilPaths {
		for _, ops := range evilOps(f, path) {
			lists++
			_, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{RestoreTimes: true})
			_ = err // most are refused, some may be done
			_, err = f.w.Check(ctx, f.idx, ops)
			_ = err
		}

		if f.w.Exists("fine") {
			fine++
		}
		if f.w.Exists(path) && strings.Contains(path, "kist") {
			t.Errorf("Exists(%q) is true", path)
		}

		f.w.Rename("fine", path)
		f.w.Rename(path, "moved")
		check(path)
		if t.Failed() {
			return
		}
		rebuild(f)
	}
	if lists < 200 {
		t.Errorf("tried %d lists, want at least 200", lists)
	}
	if fine < 30 {
		t.Errorf("the harmless file was written %d times, want at least 30", fine)
	}
}

// rebuild restores replaced symlinks.
func rebuild(f *fixture) {
	for link, target := range map[string]string{"s": ".kist", "out": "../outside", "c2": ".kist", "d/l": "../.kist", "self": ".", "up": "..", "refs": ".kist/refs/heads"} {
		at := filepath.Join(f.root, link)
		if got, err := os.Readlink(at); err != nil || got != target {
			os.RemoveAll(at)
			f.check(os.MkdirAll(filepath.Dir(at), 0o755))
			f.check(os.Symlink(target, at))
		}
	}
}

// Lists that first make a symlink and then write through it change nothing outside, in one Apply
// or in two.
func TestNoEscapeInSteps(t *testing.T) {
	f, check := newTrap(t)
	x := f.file("evil")
	for i, target := range []string{".kist", "./.kist", "../outside", filepath.Join(f.root, ".kist"), "s", "self/.kist", "..", "/proc/self/root"} {
		name := fmt.Sprintf("l%d", i)
		below := []Op{{Path: name + "/config", New: x}, {Path: name + "/secret", New: x}, {Path: name + "/dir/x", New: x}, {Path: name + "/new/new", New: x},
			{Path: name + "/refs", New: dir(0o700)}, {Path: name + "/l", New: link("x")}}
		f.w.Apply(ctx, f.store, []Op{{Path: name, New: link(target)}}, ApplyOptions{})
		f.w.Apply(ctx, f.store, below, ApplyOptions{})
		check(name)
		f.w.Apply(ctx, f.store, append(below, Op{Path: name, Old: &index.Entry{Type: object.TypeSymlink}, New: link(target)}), ApplyOptions{})
		check(name + " again")
		f.w.Apply(ctx, f.store, []Op{{Path: name + "/config", Old: &index.Entry{}}, {Path: name + "/dir"}, {Path: name + "/dir/x", Old: &index.Entry{}}}, ApplyOptions{})
		check(name + " removed")
	}
	// Nothing is read through a symlink either.
	for _, path := range []string{"s/config", "out/secret", "self/f", "d/in/x"} {
		if in, err := f.w.Open(path); err == nil {
			in.Close()
			t.Errorf("opened %s", path)
		}
		found, err := f.w.Scan(ctx, nil, ScanOptions{Paths: []string{path}})
		if err != nil || len(found) == 0 || found[len(found)-1].State != Absent {
			t.Errorf("scanned %s: %v %v", path, lines(found), err)
		}
	}
}

// No method of a Worktree follows a symlink.
func TestMethodsRefuseSymlinks(t *testing.T) {
	f, check := newTrap(t)
	for _, path := range []string{"s/config", "out/secret", "out", "f", "up/outside/secret", "self/.kist/config", "../outside/secret", "a/../../outside/secret", "fo"} {
		if file, err := f.w.Open(path); err == nil {
			file.Close()
			t.Errorf("opened %s", path)
		}
		if d, err := f.w.openFolder(path); err == nil {
			d.Close()
			t.Errorf("opened folder %s", path)
		}
		if path == "out" || path == "f" || path == "fo" {
			continue
		}
		if err := f.w.Rename("dangling", path); err == nil {
			t.Errorf("moved a symlink to %s", path)
		}
		if _, err := f.w.Lstat(path); err == nil {
			t.Errorf("Lstat(%s) succeeds", path)
		}
		if _, err := f.w.Store(ctx, f.store, path); err == nil {
			t.Errorf("stored %s", path)
		}
	}
	check("after")
}

// Open refuses a root that is missing or no folder.
func TestOpenErrors(t *testing.T) {
	f := newReal(t)
	f.write("file", "x")
	for _, root := range []string{filepath.Join(f.root, "none"), filepath.Join(f.root, "file")} {
		if _, err := Open(root, Options{}); err == nil {
			t.Errorf("opened %s", root)
		}
	}
}
