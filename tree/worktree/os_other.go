//go:build !linux && !darwin

package worktree

import (
	"errors"
	"fmt"

	"github.com/go-git/go-billy/v5"
)

// OSFS is not available on this system.
type OSFS struct{ billy.Filesystem }

// OS returns an error: this system has no way to open files without following
// symlinks that this package uses.
func OS(root string) (*OSFS, error) {
	return nil, fmt.Errorf("open worktree %q: %w", root, errors.ErrUnsupported)
}
