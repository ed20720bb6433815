package refs

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object/disk"
)

// lockFile is locked by writers.
const lockFile = "refs.lock"

// lock takes the writers' lock and returns the function that releases it. The
// error is a [*disk.BusyError] if others hold it for too long.
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

// lockOut waits for writers and excludes them until the returned function is
// called. It needs no permission to write.
func (s *Store) lockOut(ctx context.Context) (unlock func(), err error) {
	l, err := disk.Lock(ctx, s.path(lockFile), disk.Shared, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return l.Unlock, nil
}
