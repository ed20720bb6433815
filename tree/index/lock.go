package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// lock is the right to change the index: a lock on a file that is always
// there, which ends with the process.
type lock struct{ f *os.File }

// acquire waits for the lock, no longer than wait.
func acquire(ctx context.Context, kistDir string, wait time.Duration) (*lock, error) {
	path := filepath.Join(kistDir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if errors.Is(err, fs.ErrPermission) { // made by another user; locking needs no more
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("lock index: %w", err)
	}
	timeout := time.NewTimer(max(wait, 0))
	defer timeout.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		ok, err := tryLock(f)
		if ok {
			writePID(f)
			return &lock{f}, nil
		}
		if err == nil && wait <= 0 {
			err = &BusyError{path, readPID(f)}
		}
		if err == nil {
			select {
			case <-time.After(pause):
				continue
			case <-timeout.C:
				err = &BusyError{path, readPID(f)}
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		f.Close()
		return nil, err
	}
}

func (l *lock) release() { l.f.Close() }

// writePID notes in the lock file who has the lock, for people to read.
func writePID(f *os.File) {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if n, err := f.WriteAt([]byte(pid), 0); err == nil {
		f.Truncate(int64(n))
	}
}

func readPID(f *os.File) int {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}
