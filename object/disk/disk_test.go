package disk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

func TestLock(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := disk.Lock(ctx, path, disk.Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}

	for _, mode := range []disk.Mode{disk.Exclusive, disk.Shared} {
		for _, wait := range []time.Duration{0, 5 * time.Millisecond} {
			_, err := disk.Lock(ctx, path, mode, wait)
			var busy *disk.BusyError
			if !errors.Is(err, disk.ErrBusy) || !errors.As(err, &busy) || busy.PID != os.Getpid() || busy.File != path {
				t.Errorf("mode %v, wait %v: %v; want a BusyError with this process", mode, wait, err)
			}
		}
	}

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := disk.Lock(cancelled, path, disk.Exclusive, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("lock with a cancelled context: %v", err)
	}

	got := make(chan error)
	go func() {
		again, err := disk.Lock(ctx, path, disk.Exclusive, time.Minute)
		if err == nil {
			again.Unlock()
		}
		got <- err
	}()
	lock.Unlock()

	if err := <-got; err != nil {
		t.Errorf("waiting lock after Unlock: %v", err)
	}
}

func TestSharedLock(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "lock")
	one, err := disk.Lock(ctx, path, disk.Shared, 0)
	if err != nil {
		t.Fatal(err)
	}
	two, err := disk.Lock(ctx, path, disk.Shared, 0)
	if err != nil {
		t.Fatal(err)
	}
	one.Unlock()
	if _, err := disk.Lock(ctx, path, disk.Exclusive, 0); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("exclusive lock beside a shared one: %v, want ErrBusy", err)
	}
	two.Unlock()
	three, err := disk.Lock(ctx, path, disk.Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}
	three.Unlock()
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"one", "", "a longer one"} {
		if err := disk.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("file has %q, %v; want %q", got, err, text)
		}
	}
	if err := disk.WriteFile(filepath.Join(dir, "nowhere", "file"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("write in a missing directory: %v, want ErrNotExist", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(filepath.Join(dir, "folder"), nil); err == nil {
		t.Error("WriteFile replaced a directory")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("directory has %v, %v; want no temporary files", entries, err)
	}
}

func TestLockThatIsRemoved(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "lock")
	if disk.IsLocked(path) {
		t.Error("IsLocked of a missing file = true")
	}

	lock, err := disk.Lock(ctx, path, disk.Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !disk.IsLocked(path) {
		t.Error("IsLocked of a held lock = false")
	}

	got := make(chan *disk.FileLock)
	go func() {
		next, err := disk.Lock(ctx, path, disk.Exclusive, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	time.Sleep(20 * time.Millisecond) // the goroutine waits for the file that will be removed
	lock.Remove()
	next := <-got

	if _, err := disk.Lock(ctx, path, disk.Shared, 0); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("shared lock on the new file: %v, want ErrBusy", err)
	}
	next.Unlock()
	if disk.IsLocked(path) {
		t.Error("IsLocked after Unlock = true")
	}
}

func TestSum(t *testing.T) {
	for _, text := range []string{"", "a", "two\nlines", "binary\x00\xff", "crc32c 00000000\n"} {
		file := disk.WithSum([]byte(text))
		if data, has, err := disk.CutSum(file); err != nil || !has || string(data) != text {
			t.Errorf("CutSum = %q, %t, %v; want %q", data, has, err, text)
		}
		intact := func(file []byte) bool {
			data, has, err := disk.CutSum(file)
			return err == nil && has && string(data) == text
		}
		for bit := range 8 * len(file) {
			file[bit/8] ^= 1 << (bit % 8)
			if data, has, err := disk.CutSum(file); err == nil && (has || string(data) == text) {
				t.Errorf("CutSum of %q with bit %d flipped = %q, %t; want an error", text, bit, data, has)
			}
			if !disk.Mend(file, intact) || !intact(file) {
				t.Errorf("Mend does not mend %q with bit %d flipped", text, bit)
			}
		}
	}
	if disk.Mend([]byte("text"), func([]byte) bool { return false }) {
		t.Error("Mend of a file that no flipped bit mends = true")
	}
}

// TestFIFO checks that opening a FIFO in a repository fails and does not block.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), disk.RepositoryDir, "fifo")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o777), syscall.Mkfifo(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREATE} {
		if f, err := disk.OpenFile(path, flag, 0o666); err == nil {
			f.Close()
			t.Errorf("OpenFile with flags %#x opened a FIFO", flag)
		}
	}
	if data, err := disk.ReadFile(path); err == nil {
		t.Errorf("ReadFile of a FIFO = %q, want an error", data)
	}
}
