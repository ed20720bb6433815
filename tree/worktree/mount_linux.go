package worktree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// IsMountPoint reports whether a file system, or a bind mount, is mounted at path. If the kernel
// does not report mount points, it compares the device with that of the folder above.
func IsMountPoint(path string) (bool, error) {
	var st, above unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st); err != nil {
		return false, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	err := unix.Statx(unix.AT_FDCWD, path+"/..", 0, unix.STATX_BASIC_STATS, &above)
	if errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil && (st.Dev_major != above.Dev_major || st.Dev_minor != above.Dev_minor), err
}
