package dir

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file to a name that must be free.
func renameNew(from *os.File, name string, to *os.File, newName string) error {
	return callRetrying("rename", to, newName, func(fd int) error {
		return unix.RenameatxNp(int(from.Fd()), name, fd, newName, unix.RENAME_EXCL)
	})
}
