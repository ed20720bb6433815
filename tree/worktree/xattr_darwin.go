package worktree

import "golang.org/x/sys/unix"

const errNoXattr = unix.ENOATTR

func (d *osFolder) xattrs(name string) (map[string][]byte, error) {
	fd := d.fd
	if name != "" {
		var err error
		if fd, err = openat(d.fd, name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK, 0); err != nil {
			return nil, err
		}
		defer unix.Close(fd)
	}
	return osFile(fd).xattrs()
}
