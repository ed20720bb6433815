package worktree

import "golang.org/x/sys/unix"

// isMountPoint reports whether a file system, or a bind mount, is mounted on the folder. If the
// kernel does not report mount points, it compares the device with that of the folder above.
func (d *osFolder) isMountPoint() (bool, error) {
	var st, above unix.Statx_t
	if err := unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return false, err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	err := unix.Statx(d.fd, "..", 0, unix.STATX_BASIC_STATS, &above)
	return err == nil && (st.Dev_major != above.Dev_major || st.Dev_minor != above.Dev_minor), err
}
