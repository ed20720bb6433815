package refs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockFile = "refs.lock"
	lockWait = 30 * time.Second
)

// lock waits for the writers' lock and returns what gives it back. The lock
// is an flock on a file that is never removed, so it ends with its process.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(s.path(lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	if err := waitLock(ctx, f, lockWait); err != nil {
		f.Close()
		return nil, err
	}
	// Who holds it is for people to read: nothing depends on it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err := s.clean(); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return func() { f.Close() }, nil
}

func waitLock(ctx context.Context, f *os.File, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, ErrBusy)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock refs: %w", err)
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != ErrBusy {
				return cause
			}
			return &BusyError{File: f.Name(), PID: holder(f)}
		case <-time.After(pause):
		}
	}
}

// holder returns the process that wrote its number into the lock file.
func holder(f *os.File) int {
	var buf [20]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return max(pid, 0)
}
