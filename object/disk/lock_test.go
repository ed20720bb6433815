package disk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock that was given back is free, though a process that is just being
// started has its file open too, as it has all of them until its program runs.
func TestUnlockWhileProcessStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, mode := range []Mode{Exclusive, Shared} {
		lock, err := Lock(context.Background(), path, mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		inProcess, err := unix.Dup(int(lock.f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
		next, err := Lock(context.Background(), path, Exclusive, 0)
		if err != nil {
			t.Fatalf("mode %v: %v", mode, err)
		}
		next.Unlock()
		unix.Close(inProcess)
	}
}

// A lock names the process that holds it: none that held it before, and none
// that has ended.
func TestBusyNamesHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	take := func(mode Mode) *FileLock {
		lock, err := Lock(t.Context(), path, mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	refused := func() *BusyError {
		var busy *BusyError
		if _, err := Lock(t.Context(), path, Exclusive, 0); !errors.As(err, &busy) {
			t.Fatalf("error %v", err)
		}
		return busy
	}

	lock := take(Exclusive)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if busy := refused(); busy.PID != os.Getpid() || !busy.Since.Equal(info.ModTime()) {
		t.Errorf("held by this process since %v: %+v", info.ModTime(), busy)
	}
	lock.Unlock()

	lock = take(Shared)
	if busy := refused(); busy.PID != 0 || !busy.Since.IsZero() {
		t.Errorf("the former holder is named: %+v", busy)
	}
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(ended.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if busy := refused(); busy.PID != 0 {
		t.Errorf("a process that ended is named: %+v", busy)
	}
	lock.Unlock()
}
