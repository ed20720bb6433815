package disk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/trace"
)

// TestUnlockWhileProcessStarts checks that Unlock frees a lock though a starting process
// still shares its open file. A process shares all open files until it runs its program.
func TestUnlockWhileProcessStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, mode := range []Mode{Exclusive, Shared} {
		lock, err := Lock(context.Background(), path, mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		shared, err := unix.Dup(int(lock.f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
		next, err := Lock(context.Background(), path, Exclusive, 0)
		if err != nil {
			t.Fatalf("lock after Unlock, mode %v: %v", mode, err)
		}
		next.Unlock()
		unix.Close(shared)
	}
}

// TestBusyNamesHolder checks that a BusyError names the process that holds the lock, and
// neither a former holder nor a process that ended.
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
			t.Fatalf("Lock: %v, want a BusyError", err)
		}
		return busy
	}

	lock := take(Exclusive)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if busy := refused(); busy.PID != os.Getpid() || !busy.Since.Equal(info.ModTime()) {
		t.Errorf("lock of this process: %+v, want its PID and time %v", busy, info.ModTime())
	}
	lock.Unlock()

	lock = take(Shared)
	if busy := refused(); busy.PID != 0 || !busy.Since.IsZero() {
		t.Errorf("shared lock: %+v, want no former holder", busy)
	}
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(ended.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if busy := refused(); busy.PID != 0 {
		t.Errorf("lock with the PID of an ended process: %+v, want no PID", busy)
	}
	lock.Unlock()
}

// TestLogOfWaiting checks that the log has the time that a process waited for a lock, and its holder.
func TestLogOfWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Lock(t.Context(), path, Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()

	var out strings.Builder
	ctx := trace.With(t.Context(), trace.New(&out, time.Now))
	if _, err := Lock(ctx, path, Exclusive, time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	log := out.String()
	if strings.Count(log, "\n") != 2 || !strings.Contains(log, "held by process") || !strings.Contains(log, "took=") {
		t.Errorf("the log has\n%s", log)
	}
}
