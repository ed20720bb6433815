//go:build !linux && !darwin

package worktree

import (
	"errors"
	"fmt"

	"github.com/go-git/go-billy/v5"
)

// OSFS is not available on this system.
type OSFS struct{ billy.Filesystem }

// OS returns an error: this package cannot open files without following
// symlinks on this system.
func OS(root string) (*OSFS, error) {
	return nil, fmt.Errorf("open worktree %q: %w", root, errors.ErrUnsupported)
}
