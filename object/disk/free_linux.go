package disk

import "golang.org/x/sys/unix"

// FreeSpace returns the number of free bytes in the file system of dir.
func FreeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Frsize, nil
}
