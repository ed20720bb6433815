package worktree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
)

// piece is a part of a file with data. The rest of the file is holes.
type piece struct{ at, size int }

// writeHoles makes a file of size bytes that has data in these pieces alone. It returns the content.
func (f *fixture) writeHoles(path string, size int, pieces []piece, seed int) []byte {
	f.t.Helper()
	content := make([]byte, size)
	file, err := os.Create(filepath.Join(f.root, path))
	f.check(err)
	defer file.Close()
	f.check(file.Truncate(int64(size)))
	for i, p := range pieces {
		end := min(p.at+p.size, size)
		data := random(seed+i, end-p.at)
		if i%3 == 2 {
			data = strings.Repeat("\x00", len(data)) // zeros on disk
		}
		copy(content[p.at:], data)
		_, err := file.WriteAt([]byte(data), int64(p.at))
		f.check(err)
	}
	return content
}

// cutPlain returns the content key and the objects of a file's content, with none of a storer's
// shortcuts.
func (f *fixture) cutPlain(content []byte) (object.Key, []object.Key) {
	f.t.Helper()
	store := objecttest.NewMemory()
	manifest := object.NewManifestWriter(store)
	f.check(f.w.opt.Chunker.Split(bytes.NewReader(content), func(chunk []byte) error {
		id, err := store.Put(ctx, object.KindChunk, chunk)
		f.check(err)
		return manifest.Add(ctx, object.ChunkRef{ID: id, Size: uint32(len(chunk))})
	}))
	key, _, err := manifest.Finish(ctx)
	f.check(err)
	return key, store.Keys()
}

// A file with holes has the objects of the same file without holes.
func TestSparseSameObjects(t *testing.T) {
	type layout struct {
		size   int
		pieces []piece
	}
	const kib = 1 << 10
	layouts := map[string]layout{
		"one hole":             {300 * kib, nil},
		"odd size":             {300*kib + 77, nil},
		"one chunk":            {kib + 1, nil},
		"data at the start":    {300 * kib, []piece{{0, 10 * kib}}},
		"data at the end":      {300 * kib, []piece{{290 * kib, 10 * kib}}},
		"data in the middle":   {300 * kib, []piece{{100*kib + 5, 7 * kib}}},
		"no hole":              {100 * kib, []piece{{0, 100 * kib}}},
		"zeros on disk":        {300 * kib, []piece{{0, 1}, {4 * kib, 1}, {100 * kib, 100 * kib}}},
		"a byte per block":     {64 * kib, []piece{{1, 1}, {9000, 1}, {9001, 1}, {20000, 1}, {65535, 1}}},
		"a hole of one block":  {100 * kib, []piece{{0, 40 * kib}, {44 * kib, 56 * kib}}},
		"larger than a buffer": {3 << 20, []piece{{1<<20 + 3, 300 * kib}}},
	}
	r := objecttest.Rand(1)
	for i := range objecttest.Rounds(t, 40) {
		l := layout{size: kib + 1 + r.IntN(600*kib)}
		for range r.IntN(6) {
			l.pieces = append(l.pieces, piece{r.IntN(l.size), 1 + r.IntN(1<<r.IntN(18))})
		}
		layouts[fmt.Sprint("random ", i)] = l
	}

	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			f := newReal(t)
			content := f.writeHoles("file", l.size, l.pieces, 1)
			want, objects := f.cutPlain(content)
			s, err := f.w.Store(ctx, f.store, "file")
			f.check(err)
			if got := f.store.(*objecttest.Memory).Keys(); s.Entry.Content != want || !slices.Equal(got, objects) {
				t.Errorf("%+v: content %v and %d objects, want %v and %d", l, s.Entry.Content, len(got), want, len(objects))
			}

			// The same with the chunk boundaries of another chunker.
			known := index.NewEntry(s.Entry, s.Stat)
			p := f.w.opt.Chunker.Params()
			p.Polynomial = 0x30e2e2979e3a1f
			p.Min *= 2
			f.cutWith(p)
			f.w.opt.Objects = f.store
			storer := f.w.newStorer(f.store, nil)
			defer storer.close()
			again, err := storer.storeItem(ctx, "file", nil, &known)
			f.check(err)
			if differs, _ := f.cutPlain(content); again.Entry.Content != want && again.Entry.Content != differs {
				t.Errorf("%+v: the known content is %v, want %v", l, again.Entry.Content, want)
			}
		})
	}
}

// Holes are not read from disk.
func TestSparseNotRead(t *testing.T) {
	f := newReal(t)
	if !reliable[f.fileSystem()] {
		objecttest.Skip(t, "holes of this file system are not relied on")
	}
	const size = 256 << 20
	f.writeHoles("file", size, []piece{{size / 2, 100}}, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := f.bytesRead()
	s, err := f.w.Store(ctx, object.Discard, "file")
	f.check(err)
	if read := f.bytesRead() - before; s.Entry.Size != size || read > 10<<20 {
		t.Errorf("%d bytes of a file of %d were read, want 100 and little more", read, s.Entry.Size)
	}
}

// bytesRead returns the number of bytes that this thread has read from files.
func (f *fixture) bytesRead() int {
	data, err := os.ReadFile("/proc/thread-self/io")
	f.check(err)
	count, _, _ := strings.Cut(strings.TrimPrefix(string(data), "rchar: "), "\n")
	n, err := strconv.Atoi(count)
	f.check(err)
	return n
}

// Reading changes no access time, where the system allows that. Elsewhere it still reads.
func TestAccessTimes(t *testing.T) {
	for _, owner := range []bool{true, false} {
		t.Run(fmt.Sprint("owner ", owner), func(t *testing.T) {
			f := newReal(t)
			f.mkdir("d")
			f.write("d/small", "small content")
			f.write("d/large", random(1, 100_000))
			f.write("d/e/f", "f")
			f.check(os.Chmod(f.root, 0o755))
			paths := []string{"d/small", "d/large", "d/e/f", "d/e", "d", ""}
			accessed, modified := time.Unix(1e9, 0), time.Unix(11e8, 0)
			for _, p := range paths {
				f.check(os.Chtimes(filepath.Join(f.root, p), accessed, modified))
			}
			asRoot := func() {}
			if !owner {
				asRoot = f.asNobody()
			}

			if got := f.scan(ScanOptions{}); len(got) == 0 {
				t.Error("the scan finds nothing")
			}
			for _, p := range paths[:3] {
				if s, err := f.w.Store(ctx, f.store, p); err != nil || s.Entry.Size == 0 {
					t.Errorf("Store(%s) = %+v, %v", p, s, err)
				}
			}

			asRoot()
			for _, p := range paths {
				var st unix.Stat_t
				f.check(unix.Stat(filepath.Join(f.root, p), &st))
				if at := time.Unix(st.Atim.Unix()); owner && !at.Equal(accessed) {
					t.Errorf("the access time of %q became %v", p, at)
				}
			}
		})
	}
}

// asNobody takes the rights of root from this thread, for access to files, until the result is
// called.
func (f *fixture) asNobody() (asRoot func()) {
	if os.Getuid() != 0 {
		objecttest.Skip(f.t, "not root")
	}
	runtime.LockOSThread()
	f.check(unix.Setfsuid(65534))
	return func() {
		f.check(unix.Setfsuid(0))
		runtime.UnlockOSThread()
	}
}
