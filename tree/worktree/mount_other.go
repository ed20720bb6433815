//go:build !linux

package worktree

import "golang.org/x/sys/unix"

// isMountPoint reports whether a file system is mounted on the folder: the folder above is on
// another device.
func (d *osFolder) isMountPoint() (bool, error) {
	var st, above unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	if err == nil {
		err = unix.Fstatat(d.fd, "..", &above, 0)
	}
	return err == nil && st.Dev != above.Dev, err
}
