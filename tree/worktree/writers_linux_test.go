package worktree

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// mapFile maps a file for writing and closes its descriptor.
func (f *fixture) mapFile(path string) []byte {
	f.t.Helper()
	file, err := os.OpenFile(filepath.Join(f.root, path), os.O_RDWR, 0)
	f.check(err)
	defer file.Close()
	info, err := file.Stat()
	f.check(err)
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	f.check(err)
	f.t.Cleanup(func() { unix.Munmap(data) })
	return data
}

// fileSystem returns the magic number of the fixture's file system.
func (f *fixture) fileSystem() int64 {
	var st unix.Statfs_t
	f.check(unix.Statfs(f.root, &st))
	return int64(st.Type)
}

// A stored file is settled, and not racy, if no process can write to it. File systems without
// leases have no settled files.
func TestWriters(t *testing.T) {
	nothing := func(f *fixture) {}
	for _, test := range []struct {
		name    string
		later   time.Duration // clock difference between write and read
		open    func(f *fixture)
		settled bool
	}{
		{"closed", 3 * time.Second, nothing, true},
		{"written in the same tick", -20 * time.Second, nothing, false},
		{"open for writing", 3 * time.Second, func(f *fixture) { f.keepOpen("file") }, false},
		{"open for reading", 3 * time.Second, func(f *fixture) {
			file, err := os.Open(filepath.Join(f.root, "file"))
			f.check(err)
			f.t.Cleanup(func() { file.Close() })
		}, true},
		{"mapped", 3 * time.Second, func(f *fixture) { f.mapFile("file") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newReal(t)
			later := time.Duration(0)
			f.w.opt.Now = func() time.Time { return time.Now().Add(later) }
			f.w.readClock()
			f.write("file", "content that does not fit into an entry")
			later = test.later
			test.open(f)

			for _, dst := range []object.Writer{f.store, object.Discard} {
				s, err := f.w.Store(ctx, dst, "file")
				f.check(err)
				settled := test.settled && reliable[f.fileSystem()]
				onTmpfs := f.fileSystem() == unix.TMPFS_MAGIC && test.name != "closed" && dst != object.Discard
				if s.Stat.Racy() == settled || s.Unstable && !onTmpfs {
					t.Errorf("racy is %v, want %v; unstable is %v", s.Stat.Racy(), !settled, s.Unstable)
				}
			}
		})
	}
}

// A change through a mapping during the read is detected. The pages are dirty before, so the
// times do not change.
func TestHiddenChanges(t *testing.T) {
	for _, often := range []int{1, 1 << 30} {
		f := newReal(t)
		if !reliable[f.fileSystem()] {
			continue // hidden changes cannot be detected
		}
		later := time.Duration(0)
		f.w.opt.Now = func() time.Time { return time.Now().Add(later) }
		f.w.readClock()
		f.write("file", random(7, 200_000))
		data := f.mapFile("file")
		copy(data, bytes.Repeat([]byte{0}, len(data)))
		later = 3 * time.Second // the last visible change is long ago
		changes := 0
		var mu sync.Mutex // several goroutines store chunks
		dst := &hooked{f.store, func() error {
			mu.Lock()
			defer mu.Unlock()
			if changes < often {
				changes++
				data[len(data)-1]++
			}
			return nil
		}}
		s, err := f.w.Store(ctx, dst, "file")
		f.check(err)

		if never := often > 1; never && (!s.Unstable || !s.Stat.IsZero()) {
			t.Errorf("changed during each read: unstable is %v, stat %+v; want unstable without stat", s.Unstable, s.Stat)
		} else if !never && s.Unstable != (f.fileSystem() == unix.TMPFS_MAGIC) {
			t.Errorf("changed once: unstable is %v", s.Unstable)
		} else if !never && f.read(s.Entry) != string(data) {
			t.Error("changed once: stored a mix of old and new content")
		}
	}
}

// The racy window of a settled file is as short as the resolution of its file system's clock.
func TestSettled(t *testing.T) {
	const at = 17e17 + 5
	for _, test := range []struct {
		mtime, readAt int64
		racy          bool
	}{
		{at, at, true}, {at, at + 10e6, true}, {at, at + 21e6, false}, {at, at + 200e9, false}, {at, at - 5e9, true},
		{17e17, 17e17 + 1e9, true}, {17e17, 17e17 + 3e9, false}, // whole seconds
	} {
		st := index.Stat{Inode: 1, MTime: test.mtime, CTime: test.mtime, ReadAt: test.readAt}
		if got := st.Settled().Racy(); got != test.racy {
			t.Errorf("changed at %d, read at %d: racy is %v, want %v", test.mtime, test.readAt, got, test.racy)
		}
	}
}
