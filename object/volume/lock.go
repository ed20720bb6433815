package volume

import (
	"context"
	"errors"
	"os"
	"time"
)

// Locks are flocks on files, so the death of a process frees them. Lock files
// that come and go (tmp-<ulid>.lock) are removed only by who holds the lock,
// and who takes one checks that the file is still the one of that name.

// ErrBusy says that another process holds a lock that is not waited for.
var ErrBusy = errors.New("busy: another process is at it")

// lockPoll is how often a lock is tried that may be waited for.
const lockPoll = 5 * time.Millisecond

// fileLock is a lock that is held.
type fileLock struct{ f *os.File }

// tryLock takes the lock on the file at path, which is made if need be. It
// returns ErrBusy if the lock is held.
func tryLock(path string, exclusive bool) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := flock(f, exclusive); err != nil {
			f.Close()
			return nil, err
		}
		if sameFile(f, path) {
			return &fileLock{f}, nil
		}
		f.Close() // it was removed while we took the lock
	}
}

// waitLock takes the lock on the file at path, waiting for it.
func waitLock(ctx context.Context, path string, exclusive bool) (*fileLock, error) {
	for {
		l, err := tryLock(path, exclusive)
		if !errors.Is(err, ErrBusy) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

func sameFile(f *os.File, path string) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	want, err := os.Lstat(path)
	return err == nil && os.SameFile(have, want)
}

// release frees the lock and leaves its file.
func (l *fileLock) release() {
	if l != nil {
		l.f.Close()
	}
}

// remove frees the lock and removes its file.
func (l *fileLock) remove() {
	if l != nil {
		os.Remove(l.f.Name())
		l.f.Close()
	}
}

// isHeld reports whether another process or session holds the lock on the
// file at path, which it does not make.
func isHeld(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return !os.IsNotExist(err)
	}
	defer f.Close()
	return flock(f, false) != nil
}
