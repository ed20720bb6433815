package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is matched by every [*BusyError].
var ErrBusy = errors.New("locked by another process")

// BusyError says that another process holds a lock.
type BusyError struct {
	File string // the lock file
	PID  int    // of a process that holds it; 0: not known
}

func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.File)
	}
	return fmt.Sprintf("%s is held by process %d", e.File, e.PID)
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Mode is how a lock is held.
type Mode int

// Any number of holders may share a lock that nobody holds exclusively.
const (
	Exclusive Mode = unix.LOCK_EX
	Shared    Mode = unix.LOCK_SH
)

// DefaultWait is how long a command waits for another one.
const DefaultWait = 30 * time.Second

// Lock takes the lock on the file at path, which is made if it is absent and
// never removed. If it is held, Lock waits, at most for the time given (0 or
// less: not at all), and then returns a [*BusyError]. The lock ends with a
// call of unlock, or with the process.
func Lock(ctx context.Context, path string, mode Mode, wait time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if errors.Is(err, fs.ErrPermission) { // made by another user; locking needs no more
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := waitFor(ctx, f, mode, wait); err != nil {
		f.Close()
		return nil, err
	}
	if mode == Exclusive {
		writePID(f)
	}
	return func() { f.Close() }, nil
}

func waitFor(ctx context.Context, f *os.File, mode Mode, wait time.Duration) error {
	late := time.After(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		free, err := tryLock(f, mode)
		switch {
		case err != nil:
			return fmt.Errorf("lock: %w", err)
		case free:
			return ctx.Err()
		case wait <= 0:
			return &BusyError{f.Name(), readPID(f)}
		}
		select {
		case <-time.After(pause):
		case <-late:
			return &BusyError{f.Name(), readPID(f)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryLock locks f unless another open file has it locked.
func tryLock(f *os.File, mode Mode) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), int(mode)|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// writePID notes in the lock file who has the lock, for people to read: that
// it cannot be written is no failure.
func writePID(f *os.File) {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if n, err := f.WriteAt([]byte(pid), 0); err == nil {
		_ = f.Truncate(int64(n))
	}
}

func readPID(f *os.File) int {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
