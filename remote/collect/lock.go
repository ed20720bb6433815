package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// withoutLocked returns the names of condemned files that are not locked, and counts the locked
// ones.
func withoutLocked(ctx context.Context, c *Collection, names []string) ([]string, error) {
	store, ok := remote.As[remote.Locker](c.r.Backend())
	if !ok || c.r.Options().LockAt(c.snap.State).Age <= 0 {
		return names, nil
	}

	locked := make([]bool, len(names))
	now := c.r.Options().Now()
	var mu sync.Mutex
	err := transfer.Parallel(ctx, c.options.Jobs, len(names), func(ctx context.Context, i int) error {
		return retry.Do(ctx, c.r.Options().Retry, "lock", func(ctx context.Context) error {
			have, err := store.Retention(ctx, names[i])
			if errors.Is(err, remote.ErrNotFound) {
				return nil
			}
			if err != nil || !have.Until.After(now) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			locked[i] = true
			c.stats.Locked++
			c.stats.LockedBytes += c.sizeOf(names[i])
			if have.Until.After(c.stats.LockedUntil) {
				c.stats.LockedUntil = have.Until
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look up locks: %w", err)
	}

	i := -1
	return slices.DeleteFunc(slices.Clone(names), func(string) bool { i++; return locked[i] }), nil
}
