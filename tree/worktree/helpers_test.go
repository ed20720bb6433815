package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

var ctx = context.Background()

// fixture is a worktree with an index and a store.
type fixture struct {
	t     testing.TB
	w     *Worktree
	root  string           // path of a real folder, "" in memory
	fs    billy.Filesystem // file system in memory, nil for a real folder
	idx   *index.Index
	store object.ReadWriter
}

// cutter cuts content into chunks of about 4 KiB.
func cutter(t testing.TB) *chunker.Chunker {
	t.Helper()
	c, err := chunker.New(chunker.Params{Polynomial: 0x3DA3358B4DC173, Min: 1 << 10, Avg: 4 << 10, Max: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newReal returns a worktree in a new folder with a .kist.
func newReal(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, root: t.TempDir()}
	f.write(".kist/config", "this is the configuration")
	if err := os.Mkdir(filepath.Join(f.root, ".kist/tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	return f.init()
}

func newMemory(t testing.TB) *fixture {
	f := &fixture{t: t, fs: memfs.New()}
	return f.init()
}

// open reopens the worktree with options.
func (f *fixture) open(o Options) {
	f.t.Helper()
	if f.fs != nil {
		f.w = New(f.fs, o)
		return
	}
	w, err := Open(f.root, o)
	f.check(err)
	f.w = w
}

func (f *fixture) init() *fixture {
	f.t.Helper()
	f.open(Options{Chunker: cutter(f.t), Now: time.Now, TempDir: ".kist/tmp"})
	f.idx = index.New()
	f.store = objecttest.NewMemory()
	return f
}

// each runs a test on a real folder and in memory.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("os", func(t *testing.T) { test(t, newReal(t)) })
	t.Run("memfs", func(t *testing.T) { test(t, newMemory(t)) })
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// write writes a file and the folders above it, without the code under test.
func (f *fixture) write(path, content string) {
	f.t.Helper()
	if f.root == "" {
		file, err := f.fs.Create(path)
		f.check(err)
		_, err = file.Write([]byte(content))
		f.check(err)
		f.check(file.Close())
		return
	}
	at := filepath.Join(f.root, path)
	f.check(os.MkdirAll(filepath.Dir(at), 0o755))
	f.check(os.WriteFile(at, []byte(content), 0o644))
}

func (f *fixture) mkdir(path string) {
	f.t.Helper()
	if f.root == "" {
		f.check(f.fs.MkdirAll(path, 0o755))
		return
	}
	d, err := f.w.fs.openFolder("") // step by step, because the path may be too long for the kernel
	f.check(err)
	d, err = makeBelow(d, path, 0o755, nil)
	f.check(err)
	f.check(d.Close())
}

func (f *fixture) symlink(target, path string) {
	f.t.Helper()
	if f.root != "" {
		at := filepath.Join(f.root, path)
		f.check(os.MkdirAll(filepath.Dir(at), 0o755))
		f.check(os.Symlink(target, at))
		return
	}
	f.check(f.fs.Symlink(target, path))
}

func (f *fixture) remove(path string) {
	f.t.Helper()
	if f.root != "" {
		f.check(os.RemoveAll(filepath.Join(f.root, path)))
		return
	}
	if infos, err := f.fs.ReadDir(path); err == nil {
		for _, info := range infos {
			f.remove(path + "/" + info.Name())
		}
	}
	f.check(f.fs.Remove(path))
}

// scan returns the result of a scan, a line for each path: "state path".
func (f *fixture) scan(o ScanOptions) []string {
	f.t.Helper()
	found, err := f.w.Scan(ctx, f.idx, o)
	f.check(err)
	if !slices.IsSortedFunc(found, func(a, b *Found) int { return tree.ComparePaths(a.Path, b.Path) }) {
		f.t.Errorf("scan is not sorted: %v", lines(found))
	}
	for i := 1; i < len(found); i++ {
		if found[i].Path == found[i-1].Path {
			f.t.Errorf("found twice: %q", found[i].Path)
		}
	}
	return lines(found)
}

func lines(found []*Found) []string {
	list := []string{}
	for _, f := range found {
		line := f.State.String() + " " + f.Path
		if f.Dir {
			line += "/"
		}
		list = append(list, line)
	}
	return list
}

// tick waits until the file system's coarse clock has advanced. Later changes then have a new
// time.
func (f *fixture) tick() {
	f.t.Helper()
	if f.root == "" {
		return
	}
	at := filepath.Join(f.root, ".kist", "clock")
	defer os.Remove(at)
	now := func() time.Time {
		f.check(os.WriteFile(at, []byte("tick"), 0o666))
		info, err := os.Stat(at)
		f.check(err)
		return info.ModTime()
	}
	for before := now(); !now().After(before); {
		time.Sleep(time.Millisecond)
	}
}

// stage stores all differences and puts them into the index, as files that were read long after
// they were written. Files written next have another time.
func (f *fixture) stage() {
	f.t.Helper()
	defer f.tick()
	found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
	f.check(err)
	var files []*Found
	for _, found := range found {
		switch {
		case found.State == Deleted:
			f.idx.Remove(found.Path)
		case found.Dir && found.State != Unreadable && found.State != Nested:
			f.check(f.idx.SetDir(found.Path, object.Entry{Mode: found.Mode}))
		case found.State == Untracked || found.State == Modified || found.State == TypeChanged:
			files = append(files, found)
		}
	}
	f.check(f.w.StoreAll(ctx, f.store, files, func(i int, s Stored, err error) error {
		if err != nil {
			return fmt.Errorf("store %q: %w", files[i].Path, err)
		}
		if s.Stat.ReadAt != 0 {
			s.Stat.ReadAt += 2 * index.RacyWindow
		}
		return f.idx.Set(files[i].Path, index.NewEntry(s.Entry, s.Stat))
	}, nil))
}

// confirm scans and confirms the result.
func (f *fixture) confirm() (changed []*Found, same []Refreshed) {
	f.t.Helper()
	found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
	f.check(err)
	changed, same, err = f.w.Confirm(ctx, found)
	f.check(err)
	return changed, same
}

// file stores content and returns the entry of a file with it.
func (f *fixture) file(content string) *object.Entry {
	f.t.Helper()
	s := f.w.newStorer(f.store, nil)
	e := &object.Entry{Type: object.TypeFile, Mode: 0o644, MTime: object.Time{Sec: 1e9, Nsec: 5}}
	in := memfs.New()
	file, err := in.Create("x")
	f.check(err)
	_, err = file.Write([]byte(content))
	f.check(err)
	f.check(file.Close())
	opened, err := in.Open("x")
	f.check(err)
	if len(content) <= f.w.opt.Chunker.Params().Min {
		f.check(s.storeSmall(ctx, &pathFile{File: opened}, int64(len(content)), e))
	} else {
		f.check(s.storeLarge(ctx, &pathFile{File: opened}, e))
	}
	return e
}

func link(target string) *object.Entry {
	return &object.Entry{Type: object.TypeSymlink, Mode: 0o777, Target: target, MTime: object.Time{Sec: 1e9}}
}

func dir(mode uint16) *object.Entry {
	return &object.Entry{Type: object.TypeDir, Mode: mode, Content: object.Key{Kind: object.KindTree, ID: object.Sum(nil)}}
}

// snapshot describes a real folder by path, as type, mode and content.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, at)
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			line += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			line += " -> " + target
		}

		all[path] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// random returns n bytes that do not compress, different for each seed.
func random(seed, n int) string {
	var b strings.Builder
	b.Grow(n + 32)
	for i := 0; b.Len() < n; i++ {
		id := object.Sum(fmt.Append(nil, seed, i))
		b.Write(id[:])
	}
	return b.String()[:n]
}

// keepOpen keeps a file open for writing until the test ends.
func (f *fixture) keepOpen(path string) {
	f.t.Helper()
	file, err := os.OpenFile(filepath.Join(f.root, path), os.O_WRONLY, 0)
	f.check(err)
	f.t.Cleanup(func() { file.Close() })
}
