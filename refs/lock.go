package refs

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object/disk"
)

// lockFile is locked by who writes.
const lockFile = "refs.lock"

// lock waits for the writers' lock and returns what gives it back. If others
// hold it for too long, the error is a [*disk.BusyError].
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	l, err := disk.Lock(ctx, s.path(lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	if err := s.clean(); err != nil {
		l.Unlock()
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return l.Unlock, nil
}

// lockOut waits for writers, and keeps them out until what it returns is
// called. It needs no permission to write.
func (s *Store) lockOut(ctx context.Context) (unlock func(), err error) {
	l, err := disk.Lock(ctx, s.path(lockFile), disk.Shared, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return l.Unlock, nil
}
