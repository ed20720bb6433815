//go:build !linux && !darwin

package dir

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNew returns an error: this system has no such call.
func renameNew(_ *os.File, _ string, to *os.File, newName string) error {
	return callRetrying("rename", to, newName, func(int) error { return unix.ENOSYS })
}
