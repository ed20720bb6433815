package disk

import (
	"context"
	"path/filepath"
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
