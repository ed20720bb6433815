package lent

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// lending is a worktree with a lent file.
type lending struct {
	root, kist string
	reader     *Reader
	keys       []object.Key
	chunks     []object.ChunkAt
}

const lentPath = "film/take.raw"

// newLending makes a worktree in which the file at lentPath has two lent chunks.
func newLending(t *testing.T) *lending {
	t.Helper()
	l := &lending{root: t.TempDir()}
	l.kist = filepath.Join(l.root, ".kist")
	data := append(bytes.Repeat([]byte("a"), 3000), bytes.Repeat([]byte("b"), 2000)...)
	for _, dir := range []string{l.kist, filepath.Join(l.root, "film")} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(l.path(lentPath), data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct{ from, to int }{{0, 3000}, {3000, 5000}} {
		id := object.Sum(data[part.from:part.to])
		l.keys = append(l.keys, object.Key{Kind: object.KindChunk, ID: id})
		l.chunks = append(l.chunks, object.ChunkAt{ChunkRef: object.ChunkRef{ID: id, Size: uint32(part.to - part.from)}, Offset: uint64(part.from)})
	}
	w, err := worktree.Open(l.root, worktree.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	l.reader = NewReader(l.kist, w)
	t.Cleanup(l.reader.Close)
	l.record(t, lentPath)
	return l
}

func (l *lending) path(name string) string { return filepath.Join(l.root, name) }

// record records the chunks at a path, with its present stat data.
func (l *lending) record(t *testing.T, path string) {
	t.Helper()
	info, err := os.Lstat(l.path(path))
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	f := File{Path: path, Stat: index.Stat{Size: info.Size(), MTime: info.ModTime().UnixNano(), CTime: st.Ctim.Nano(), Inode: st.Ino}}
	if err := Apply(t.Context(), l.kist, editOf(nil, []File{f}, [][]object.ChunkAt{l.chunks})); err != nil {
		t.Fatal(err)
	}
}

func TestReader(t *testing.T) {
	l := newLending(t)
	for i, key := range l.keys {
		if data := l.reader.Get(key); object.Sum(data) != key.ID || !l.reader.Has(key) {
			t.Errorf("chunk %d: %d bytes", i, len(data))
		}
	}
	for _, key := range []object.Key{{Kind: object.KindManifest, ID: l.keys[0].ID}, {Kind: object.KindChunk}} {
		if l.reader.Get(key) != nil || l.reader.Has(key) {
			t.Errorf("%s is lent", key)
		}
	}
	if err := os.Remove(filepath.Join(l.kist, FileName)); err != nil {
		t.Fatal(err)
	}
	if l.reader.Has(l.keys[0]) {
		t.Error("a chunk is lent without the file")
	}
	l.record(t, lentPath)
	if !l.reader.Has(l.keys[0]) {
		t.Error("a chunk is not lent although the file came back")
	}
}

// strangeFolder makes a folder outside the worktree with a file of the name and size of the lent one.
func strangeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(lentPath)), bytes.Repeat([]byte("s"), 5000), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEdits changes the lent file, or what leads to it. No wrong byte comes out, and the file is not tried again.
func TestEdits(t *testing.T) {
	edits := map[string]func(t *testing.T, l *lending) error{
		"removed":   func(_ *testing.T, l *lending) error { return os.Remove(l.path(lentPath)) },
		"truncated": func(_ *testing.T, l *lending) error { return os.Truncate(l.path(lentPath), 10) },
		"longer":    func(_ *testing.T, l *lending) error { return os.Truncate(l.path(lentPath), 6000) },
		"touched": func(_ *testing.T, l *lending) error {
			return os.Chtimes(l.path(lentPath), time.Unix(1, 0), time.Unix(1, 0))
		},
		"replaced": func(_ *testing.T, l *lending) error {
			data, err := os.ReadFile(l.path(lentPath))
			if err == nil {
				err = os.WriteFile(l.path("new"), bytes.ToUpper(data), 0o666)
			}
			if err == nil {
				err = os.Rename(l.path("new"), l.path(lentPath))
			}
			return err
		},
		"symlink in place": func(_ *testing.T, l *lending) error {
			if err := os.Rename(l.path(lentPath), l.path("elsewhere")); err != nil {
				return err
			}
			return os.Symlink("../elsewhere", l.path(lentPath))
		},
		"symlink above": func(_ *testing.T, l *lending) error {
			if err := os.Rename(l.path("film"), l.path("elsewhere")); err != nil {
				return err
			}
			return os.Symlink("elsewhere", l.path("film"))
		},
		"symlink of another user to the outside": func(t *testing.T, l *lending) error {
			if err := os.RemoveAll(l.path("film")); err != nil {
				return err
			}
			if err := os.Symlink(strangeFolder(t), l.path("film")); err != nil {
				return err
			}
			if os.Getuid() != 0 {
				return nil
			}
			return os.Lchown(l.path("film"), 65534, 65534)
		},
		"folder in place": func(_ *testing.T, l *lending) error {
			if err := os.Remove(l.path(lentPath)); err != nil {
				return err
			}
			return os.Mkdir(l.path(lentPath), 0o777)
		},
		"FIFO in place": func(_ *testing.T, l *lending) error {
			if err := os.Remove(l.path(lentPath)); err != nil {
				return err
			}
			return syscall.Mkfifo(l.path(lentPath), 0o666)
		},
		"changed in place, with the stat data of the change": func(t *testing.T, l *lending) error {
			f, err := os.OpenFile(l.path(lentPath), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, at := range []int64{100, 4000} {
				if _, err := f.WriteAt([]byte("X"), at); err != nil {
					return err
				}
			}
			l.record(t, lentPath) // as if no time showed the change, as with a mapping
			return nil
		},
	}
	for name, edit := range edits {
		for _, opened := range []bool{false, true} {
			l := newLending(t)
			if opened && l.reader.Get(l.keys[0]) == nil {
				t.Fatal("the chunk is not lent")
			}
			if err := edit(t, l); err != nil {
				t.Fatal(err)
			}
			for i, key := range l.keys {
				if name == "symlink above" && opened { // the file that was opened before is the same
					continue
				}
				if data := l.reader.Get(key); data != nil {
					t.Errorf("%s, file open before: %v: chunk %d is still lent", name, opened, i)
				}
				if l.reader.Has(key) {
					t.Errorf("%s: the file is tried again", name)
				}
			}
		}
	}
}

// TestMounted mounts a file or folder from outside over the lent file, or over its folder. Nothing is read from there.
func TestMounted(t *testing.T) {
	for _, over := range []string{lentPath, filepath.Dir(lentPath)} {
		l := newLending(t)
		from := strangeFolder(t)
		if over == lentPath {
			from = filepath.Join(from, filepath.Base(lentPath))
		}
		if err := syscall.Mount(from, l.path(over), "", syscall.MS_BIND, ""); err != nil {
			objecttest.Skip(t, "nothing can be mounted:", err)
		}
		defer syscall.Unmount(l.path(over), syscall.MNT_DETACH)
		for _, key := range l.keys {
			if l.reader.Get(key) != nil || l.reader.Has(key) {
				t.Errorf("a mount over %s is read", over)
			}
		}
	}
}

// TestMapping changes the file through a mapping, so that its stat data may stay.
func TestMapping(t *testing.T) {
	l := newLending(t)
	f, err := os.OpenFile(l.path(lentPath), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, 5000, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mapped)
	mapped[4999] = 'Y' // the page is dirty from now on, so later changes leave the times
	l.record(t, lentPath)
	mapped[10], mapped[4999] = 'X', 'Z'
	for i, key := range l.keys {
		if data := l.reader.Get(key); data != nil {
			t.Errorf("chunk %d is lent with %d bytes", i, len(data))
		}
	}
}

// TestHostilePaths records paths that the worktree never opens.
func TestHostilePaths(t *testing.T) {
	l := newLending(t)
	secret := []byte("secret of the repository")
	key := object.Key{Kind: object.KindChunk, ID: object.Sum(secret)}
	l.chunks = []object.ChunkAt{{ChunkRef: object.ChunkRef{ID: key.ID, Size: uint32(len(secret))}}}
	outside := filepath.Join(t.TempDir(), "secret")
	for _, path := range []string{outside, filepath.Join(l.kist, "config")} {
		if err := os.WriteFile(path, secret, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(outside), l.path("out")); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{".kist/config", "film/../.kist/config", "out/secret", "../" + filepath.Base(l.root) + "/.kist/config"} {
		l.record(t, path)
		if l.reader.Get(key) != nil || l.reader.Has(key) {
			t.Errorf("%s is read", path)
		}
	}
}
