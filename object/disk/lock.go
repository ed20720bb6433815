package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy says that another process holds a lock.
var ErrBusy = errors.New("locked by another process")

// Mode is how a lock is held.
type Mode int

// Any number of holders may share a lock that nobody holds exclusively.
const (
	Exclusive Mode = unix.LOCK_EX
	Shared    Mode = unix.LOCK_SH
)

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 5 * time.Millisecond

// TryLock takes the lock on the file at path, which is made if it is absent
// and never removed. It does not wait: the error matches [ErrBusy] if the lock
// is held. The lock ends with a call of unlock, or with the process.
func TryLock(path string, mode Mode) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), int(mode)|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("%s: %w", path, ErrBusy)
	case err != nil:
		err = fmt.Errorf("lock %s: %w", path, err)
	default:
		return func() { f.Close() }, nil
	}
	f.Close()
	return nil, err
}

// Lock is [TryLock], but waits for a lock that is held, at most for the given
// time.
func Lock(ctx context.Context, path string, mode Mode, most time.Duration) (unlock func(), err error) {
	late := time.After(most)
	for {
		unlock, err = TryLock(path, mode)
		if !errors.Is(err, ErrBusy) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, err
		case <-time.After(lockPoll):
		}
	}
}
