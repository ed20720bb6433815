//go:build !linux

package worktree

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsMountPoint reports whether a file system is mounted at path: the folder above is on
// another device.
func IsMountPoint(path string) (bool, error) {
	var st, above unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Stat(path+"/..", &above)
	} else {
		above.Dev = st.Dev
	}
	if err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Dev != above.Dev, nil
}
