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

	"github.com/kist-vcs/kist/object/trace"
)

// ErrBusy is matched by every [*BusyError].
var ErrBusy = errors.New("locked by another process")

// BusyError is the error for a lock that another process holds.
type BusyError struct {
	File string // the lock file
	PID  int    // of a process that holds the lock; 0: unknown

	// Since is the time when that process took the lock, by the clock of the file system.
	// It is zero if PID is 0.
	Since time.Time
}

func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.File)
	}
	return fmt.Sprintf("%s is held by process %d since %s", e.File, e.PID, e.Since.Format(time.DateTime))
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Mode is the way in which a lock is held.
type Mode int

// A lock has one exclusive holder or any number of shared holders.
const (
	Exclusive Mode = unix.LOCK_EX
	Shared    Mode = unix.LOCK_SH
)

// DefaultWait is the longest time that a command waits for another one.
const DefaultWait = 30 * time.Second

// FileLock is a held lock. It ends with a call of Unlock or Remove, or with the
// process.
type FileLock struct {
	f    *os.File // nil: there is no file, on a read-only file system
	mode Mode
}

// Unlock frees the lock and keeps its file. A second call does nothing.
func (l *FileLock) Unlock() {
	if l.f == nil {
		return
	}
	if l.mode == Exclusive {
		_ = l.f.Truncate(0) // shared holders write no PID, so errors about them would name this process
	}
	release(l.f)
}

// Remove frees the lock and removes its file, if possible. Only the holder may
// remove the file of a lock.
func (l *FileLock) Remove() {
	if l.f == nil {
		return
	}
	Remove(l.f.Name())
	release(l.f)
}

// Lock takes the lock on the file at path, and makes the file if it is absent. If
// another process holds the lock, Lock waits up to the given time, and then returns
// a [*BusyError]. It does not wait if the time is 0 or less. On a read-only file
// system an absent file counts as locked: nobody can make it and take the lock.
func Lock(ctx context.Context, path string, mode Mode, wait time.Duration) (*FileLock, error) {
	late := time.After(wait)
	waited := func(error, ...any) {}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l, err := tryLock(ctx, path, mode)
		if err == nil {
			err = ctx.Err()
			if err != nil {
				l.Unlock()
			}
		}
		if !errors.Is(err, ErrBusy) || wait <= 0 {
			waited(err)
			return l, err
		}
		if pause == time.Millisecond {
			waited = trace.From(ctx).Begin("wait for a lock", "busy", err, "most", wait)
		}
		select {
		case <-time.After(pause):
		case <-late:
			waited(err)
			return nil, err
		case <-ctx.Done():
			waited(ctx.Err())
			return nil, ctx.Err()
		}
	}
}

// IsLocked reports whether a process holds the lock on the file at path. It does
// not make the file.
func IsLocked(path string) bool {
	f, err := open(path, os.O_RDWR)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer release(f)
	return flock(f, Shared) != nil
}

// tryLock takes a lock or returns a [*BusyError].
func tryLock(ctx context.Context, path string, mode Mode) (*FileLock, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := open(path, os.O_RDWR|os.O_CREATE)
		if errors.Is(err, unix.EROFS) && isAbsent(path) {
			return &FileLock{nil, mode}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if err := flock(f, mode); err != nil {
			f.Close()
			return nil, err
		}
		if !isAt(f, path) { // it was removed while we took the lock
			release(f)
			continue
		}
		if mode == Exclusive {
			writePID(f)
		}
		return &FileLock{f, mode}, nil
	}
}

func isAbsent(path string) bool {
	_, err := Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// open opens a lock file. If it cannot be opened for writing, because it belongs to
// another user for example, open opens it for reading: that suffices for locking. A
// symlink is an error.
func open(path string, flag int) (*os.File, error) {
	f, err := OpenFile(path, flag|unix.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		if reading, rerr := OpenFile(path, unix.O_NOFOLLOW, 0); rerr == nil {
			return reading, nil
		}
	}
	return f, err
}

// flock locks f unless another open file has it locked.
func flock(f *os.File, mode Mode) error {
	err := retry(func() error { return unix.Flock(int(f.Fd()), int(mode)|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return busy(f)
	}
	return pathError("flock", f.Name(), err)
}

// release frees the lock on f, if there is one, and closes f. Closing alone is not
// enough while this process starts another one: until the new process runs its
// program, it shares all open files of this one.
func release(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// isAt reports whether f is the file at path.
func isAt(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	want, err := os.Lstat(path)
	return err == nil && os.SameFile(have, want)
}

// writePID writes the holder's process number into the lock file. It ignores errors,
// because the number is only for messages.
func writePID(f *os.File) {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if n, err := f.WriteAt([]byte(pid), 0); err == nil {
		_ = f.Truncate(int64(n))
	}
}

// busy returns the error for a lock file that another process has locked. It has
// the process number from the file, if such a process runs on this machine.
func busy(f *os.File) error {
	e := &BusyError{File: f.Name()}
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil || pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return e
	}
	info, err := f.Stat()
	if err != nil {
		return e
	}
	e.PID, e.Since = pid, info.ModTime()
	return e
}
