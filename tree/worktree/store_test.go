package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
)

// hooked is a Writer that calls a function after every chunk.
type hooked struct {
	object.Writer
	hook func() error
}

func (h *hooked) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id, err := h.Writer.Put(ctx, kind, data)
	if err == nil && kind == object.KindChunk {
		err = h.hook()
	}
	return id, err
}

func (f *fixture) read(e object.Entry) string {
	f.t.Helper()
	data, err := io.ReadAll(object.NewContentReader(ctx, f.store, e))
	f.check(err)
	return string(data)
}

func TestStoreSizes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for _, size := range []int{0, 1, 31, 32, 33, 1023, 1024, 1025, 4000, 100_000, 3 << 20} {
			content := random(size, size)
			f.write("file", content)
			s, err := f.w.Store(ctx, f.store, "file")
			f.check(err)
			e := s.Entry
			if s.Unstable || e.Name != "file" || e.Type != object.TypeFile || e.Size != uint64(size) {
				t.Errorf("%d bytes: %+v", size, s)
			}
			if got := f.read(e); got != content {
				t.Errorf("%d bytes: stored wrong content", size)
			}

			switch {
			case size <= object.MaxInline:
				if !e.Content.IsZero() {
					t.Errorf("%d bytes are not inline", size)
				}
			case size <= 1024:
				if e.Content != (object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(content))}) {
					t.Errorf("%d bytes are not one chunk", size)
				}
			case size >= 100_000 && e.Content.Kind != object.KindManifest:
				t.Errorf("%d bytes are not many chunks", size)
			}

			again, err := f.w.Store(ctx, object.Discard, "file")
			f.check(err)
			if again.Entry.Content != e.Content || string(again.Entry.Inline) != string(e.Inline) {
				t.Errorf("%d bytes: Store to Discard returns another entry", size)
			}
		}
	})
}

func TestStoreMetadata(t *testing.T) {
	f := newReal(t)
	f.write("file", "x")
	at := filepath.Join(f.root, "file")
	f.check(syscall.Chmod(at, 0o6751))
	mtime := time.Unix(-5, 7)
	f.check(os.Chtimes(at, mtime, mtime))
	s, err := f.w.Store(ctx, f.store, "file")
	f.check(err)
	if s.Entry.Mode != 0o6751 || s.Entry.MTime != object.TimeOf(mtime) {
		t.Errorf("entry: %+v", s.Entry)
	}

	info, err := f.w.Lstat("file")
	f.check(err)
	if !s.Stat.Same(info.Stat) || info.Type != object.TypeFile || info.Mode != 0o6751 {
		t.Errorf("stat: %+v, stored %+v", info, s.Stat)
	}

	f.symlink("no/where", "link")
	s, err = f.w.Store(ctx, f.store, "link")
	f.check(err)
	if s.Entry.Target != "no/where" || s.Entry.Type != object.TypeSymlink || s.Entry.Mode != 0o777 || s.Entry.Size != 0 {
		t.Errorf("link: %+v", s.Entry)
	}

	f.mkdir("dir")
	s, err = f.w.Store(ctx, f.store, "dir")
	f.check(err)
	if s.Entry.Type != object.TypeDir || s.Entry.Mode != 0o755 || !s.Entry.MTime.IsZero() {
		t.Errorf("dir: %+v", s.Entry)
	}
}

// A wrong clock does not make a file look as if it was read long before or after it was written.
func TestReadAt(t *testing.T) {
	for _, off := range []time.Duration{0, -10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		f := newReal(t)
		f.w.opt.Now = func() time.Time { return time.Now().Add(off) }
		f.write("file", "x")
		f.keepOpen("file") // prevents a lease
		s, err := f.w.Store(ctx, object.Discard, "file")
		f.check(err)
		if d := time.Duration(s.Stat.ReadAt - s.Stat.MTime); d.Abs() > 10*time.Second || !s.Stat.Racy() {
			t.Errorf("clock off by %v: ReadAt is %v after MTime, want at most 10s and racy", off, d)
		}
	}
}

// Goroutines that share an Opener read the right files.
func TestOpener(t *testing.T) {
	f := newReal(t)
	var paths []string
	for i := range 60 {
		path := fmt.Sprintf("d%d/e/f%d", i/20, i)
		f.write(path, path)
		paths = append(paths, path, "missing/f", fmt.Sprintf("d%d/none", i/20))
	}

	o := f.w.Opener()
	defer o.Close()
	var readers sync.WaitGroup
	for part := range 4 {
		readers.Go(func() {
			for i := part; i < len(paths); i += 4 {
				file, err := o.Open(paths[i])
				if i%3 > 0 {
					if !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("Open(%s): error %v, want ErrNotExist", paths[i], err)
					}
					continue
				}
				if err != nil {
					t.Error(err)
					continue
				}

				content, err := io.ReadAll(file)
				file.Close()
				if err != nil || string(content) != paths[i] {
					t.Errorf("%s: %q, %v", paths[i], content, err)
				}
			}
		})
	}

	readers.Wait()
}

func TestStoreSpecial(t *testing.T) {
	f := newReal(t)
	f.check(syscall.Mkfifo(filepath.Join(f.root, "fifo"), 0o644))
	l, err := net.Listen("unix", filepath.Join(f.root, "socket"))
	f.check(err)
	defer l.Close()
	names := []string{"fifo", "socket"}
	if os.Getuid() == 0 {
		f.check(syscall.Mknod(filepath.Join(f.root, "device"), syscall.S_IFCHR|0o666, 1<<8|5)) // /dev/zero
		names = append(names, "device")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range names {
			if _, err := f.w.Store(ctx, f.store, name); !errors.Is(err, ErrSpecial) {
				t.Errorf("Store(%s): error %v, want ErrSpecial", name, err)
			}
			if _, err := f.w.Open(name); !errors.Is(err, ErrSpecial) {
				t.Errorf("Open(%s): error %v, want ErrSpecial", name, err)
			}

			// StoreAll must not block on it either, even if the scan found a file.
			found := []*Found{{Path: name, State: Untracked, Type: object.TypeFile}}
			f.check(f.w.StoreAll(ctx, f.store, found, func(_ int, _ Stored, err error) error {
				if err == nil {
					t.Errorf("%s was stored", name)
				}
				return nil
			}, nil))
		}
	}()

	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("Store or Open of a special file blocks")
	}
}

func TestStoreGone(t *testing.T) {
	f := newReal(t)
	f.symlink("/etc", "link")
	f.write("file", "x")
	for _, path := range []string{"nothing", "nothing/below", "link/passwd", "file/x"} {
		if _, err := f.w.Store(ctx, f.store, path); !errors.Is(err, ErrGone) {
			t.Errorf("Store(%s): error %v, want ErrGone", path, err)
		}
	}
	for _, path := range []string{".kist/config", "../x", "/etc/passwd", "a/../../x"} {
		if s, err := f.w.Store(ctx, f.store, path); err == nil {
			t.Errorf("stored %s: %+v", path, s)
		}
	}
}

func TestStoreChanging(t *testing.T) {
	big := random(1, 200_000)
	for _, test := range []struct {
		name     string
		content  string
		change   func(f *fixture, at string, n int32)
		times    int32 // number of changes
		unstable bool
		want     string // "" accepts any content
	}{
		{"grows once", random(2, 500), func(f *fixture, at string, n int32) { appendTo(f, at, "more") }, 1, false, random(2, 500) + "more"},
		{"grows always", random(2, 500), func(f *fixture, at string, n int32) { appendTo(f, at, "more") }, 99, true, random(2, 500) + "moremore"},
		{"large grows", big, func(f *fixture, at string, n int32) { appendTo(f, at, "x") }, 1 << 30, true, ""},
		{"large is cut", big, func(f *fixture, at string, n int32) { f.check(os.Truncate(at, 50_000)) }, 1, false, big[:50_000]},
		{"large is cut short", big, func(f *fixture, at string, n int32) { f.check(os.Truncate(at, 5)) }, 1, false, big[:5]},
		{"is written in place", random(3, 700), func(f *fixture, at string, n int32) {
			file, err := os.OpenFile(at, os.O_WRONLY, 0)
			f.check(err)
			_, err = file.WriteAt(fmt.Appendf(nil, "%04d", n), 0)
			f.check(err)
			f.check(file.Close())
		}, 1, false, "0001" + random(3, 700)[4:]},
		{"is replaced", random(4, 700), func(f *fixture, at string, n int32) {
			f.write(".kist/new", random(5, 700))
			f.check(os.Rename(filepath.Join(f.root, ".kist/new"), at))
		}, 1, false, random(5, 700)},
		{"gets another mode", random(6, 700), func(f *fixture, at string, n int32) { f.check(os.Chmod(at, 0o600)) }, 1, false, random(6, 700)},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newReal(t)
			f.write("file", test.content)
			at := filepath.Join(f.root, "file")
			var n atomic.Int32
			dst := &hooked{f.store, func() error {
				if i := n.Add(1); i <= test.times {
					f.tick()
					test.change(f, at, i)
				}
				return nil
			}}
			if strings.HasPrefix(test.name, "large grows") {
				dst.hook = func() error { n.Add(1); appendTo(f, at, "x"); return nil }
			}
			s, err := f.w.Store(ctx, dst, "file")
			f.check(err)
			if s.Unstable != test.unstable || s.Stat.IsZero() != test.unstable {
				t.Errorf("unstable is %v, want %v; stat %+v", s.Unstable, test.unstable, s.Stat)
			}

			got := f.read(s.Entry)
			if test.want != "" && got != test.want {
				t.Errorf("stored %d bytes %.20q…, want %d %.20q…", len(got), got, len(test.want), test.want)
			}
			if s.Entry.Size != uint64(len(got)) {
				t.Errorf("the entry's size is %d, want %d", s.Entry.Size, len(got))
			}
		})
	}
}

func appendTo(f *fixture, at, more string) {
	file, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0)
	f.check(err)
	_, err = file.WriteString(more)
	f.check(err)
	f.check(file.Close())
}

func TestStoreAll(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		want := map[string]string{}
		for i := range 300 {
			path := fmt.Sprintf("d%d/e%d/f%03d", i%3, i%7, i)
			want[path] = random(i, i*i%5000)
		}

		want["d0/large"] = random(7, 2<<20)
		bytes := int64(0)
		for path, content := range want {
			f.write(path, content)
			bytes += int64(len(content))
		}

		found, err := f.w.Scan(ctx, nil, ScanOptions{})
		f.check(err)
		var files []*Found
		for _, x := range found {
			if !x.Dir {
				files = append(files, x)
			}
		}

		seen := map[int]bool{}
		var lastFiles, lastBytes int64
		f.check(f.w.StoreAll(ctx, f.store, files, func(i int, s Stored, err error) error {
			f.check(err)
			if seen[i] || s.Unstable || f.read(s.Entry) != want[files[i].Path] {
				t.Errorf("%s is stored twice, unstable or wrong", files[i].Path)
			}
			seen[i] = true
			return nil
		}, func(files, bytes int64) {
			if files < lastFiles || bytes < lastBytes {
				t.Error("progress went back")
			}
			lastFiles, lastBytes = files, bytes
		}))

		if len(seen) != len(want) || lastFiles != int64(len(want)) || lastBytes != bytes {
			t.Errorf("stored %d files, progress %d files and %d bytes; want %d files and %d bytes", len(seen), lastFiles, lastBytes, len(want), bytes)
		}
	})
}

func TestStoreAllErrors(t *testing.T) {
	f := newReal(t)
	var files []*Found
	for i := range 100 {
		path := fmt.Sprintf("f%02d", i)
		f.write(path, random(i, 500))
		files = append(files, &Found{Path: path, State: Untracked, Type: object.TypeFile})
	}

	f.remove("f50")
	gone := 0
	f.check(f.w.StoreAll(ctx, f.store, files, func(i int, s Stored, err error) error {
		if errors.Is(err, ErrGone) && i == 50 {
			gone++
			return nil
		}
		return err
	}, nil))
	if gone != 1 {
		t.Errorf("ErrGone was reported %d times, want 1", gone)
	}

	broken := errors.New("broken")
	ignore := func(int, Stored, error) error { return nil }
	if err := f.w.StoreAll(ctx, f.store, files, func(i int, _ Stored, _ error) error {
		if i == 70 {
			return broken
		}
		return nil
	}, nil); err != broken {
		t.Errorf("error %v, want the error of the callback", err)
	}

	if err := f.w.StoreAll(ctx, &hooked{f.store, func() error { return broken }}, files, ignore, nil); err != broken {
		t.Errorf("error %v, want the error of the store", err)
	}
	f.write("large", random(1, 1<<20))
	if err := f.w.StoreAll(ctx, &hooked{f.store, func() error { return broken }}, []*Found{{Path: "large", Type: object.TypeFile}}, ignore, nil); err != broken {
		t.Errorf("large file: error %v, want the error of the store", err)
	}

	cancelled, cancel := context.WithCancel(ctx)
	if err := f.w.StoreAll(cancelled, &hooked{f.store, func() error { cancel(); return nil }}, files, ignore, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v, want Canceled", err)
	}
}

// Storing a large file to a slow store has few chunks in memory at once.
func TestStoreLargeIsBounded(t *testing.T) {
	f := newReal(t)
	f.write("large", random(1, 8<<20))
	var now, most atomic.Int32
	dst := &slow{Writer: objecttest.NewMemory(), now: &now, most: &most}
	_, err := f.w.Store(ctx, dst, "large")
	f.check(err)
	if n := most.Load(); n < 2 || int(n) > f.w.opt.Jobs+1 {
		t.Errorf("%d chunks at once, want 2 to %d", n, f.w.opt.Jobs+1)
	}
}

// slow is a Writer with delays. Its first Put waits for a second one at the same time.
type slow struct {
	object.Writer
	now, most *atomic.Int32
	first     sync.Once
}

func (s *slow) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for {
		if most := s.most.Load(); n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	s.first.Do(func() {
		for start := time.Now(); s.most.Load() < 2 && time.Since(start) < time.Minute; {
			time.Sleep(50 * time.Microsecond)
		}
	})
	time.Sleep(50 * time.Microsecond)
	return s.Writer.Put(ctx, kind, data)
}

func TestConfirmStates(t *testing.T) {
	f := newReal(t)
	for _, path := range []string{"touched", "edited", "gone", "linked"} {
		f.write(path, "content of "+path)
	}
	f.stage()
	now := time.Now()
	f.check(os.Chtimes(filepath.Join(f.root, "touched"), now, now))
	f.write("edited", "CONTENT of edited")
	f.check(os.Chtimes(filepath.Join(f.root, "gone"), now, now))
	found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
	f.check(err)
	same(t, "scan", lines(found), []string{"modified edited", "modified gone", "modified touched"})
	f.remove("gone")
	changed, unchanged, err := f.w.Confirm(ctx, found)
	f.check(err)
	same(t, "confirmed", lines(changed), []string{"modified edited", "deleted gone"})
	if len(unchanged) != 1 || unchanged[0].Path != "touched" || unchanged[0].Old != f.idx.Entry("touched") || unchanged[0].Stat.MTime == unchanged[0].Old.Stat.MTime {
		t.Errorf("unchanged files are %+v, want touched with a new time", unchanged)
	}
}

// Confirm handles more files than it reads at once.
func TestConfirmMany(t *testing.T) {
	f := newReal(t)
	const files = 2*confirmAtOnce + 10
	all := make([]*Found, files)
	for i := range all {
		all[i] = &Found{Path: fmt.Sprintf("d/%05d", i), State: Untracked}
	}

	for _, i := range []int{0, 5, confirmAtOnce - 1, confirmAtOnce, 2 * confirmAtOnce, files - 1} {
		path := all[i].Path
		f.write(path, "old")
		s, err := f.w.Store(ctx, f.store, path)
		f.check(err)
		e := index.NewEntry(s.Entry, s.Stat)
		if i%2 == 0 {
			f.write(path, "new")
		}
		all[i] = &Found{Path: path, Type: object.TypeFile, Stat: s.Stat, State: Modified, Old: &e}
	}

	var want []string
	for i := range all {
		switch {
		case all[i].State == Untracked:
			want = append(want, "untracked "+all[i].Path)
		case i%2 == 0:
			want = append(want, "modified "+all[i].Path)
		}
	}

	changed, same, err := f.w.Confirm(ctx, all)
	f.check(err)
	if got := lines(changed); !slices.Equal(got, want) {
		t.Errorf("%d files are changed, want %d", len(got), len(want))
	}
	if len(same) != files-len(want) || len(same) != 3 {
		t.Errorf("%d files are unchanged, want %d", len(same), files-len(want))
	}
}
