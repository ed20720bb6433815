package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/disk"
)

// renameNew renames a directory to a name that must not exist.
func renameNew(from, to string) error {
	if _, err := disk.Lstat(from); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameChecked(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
