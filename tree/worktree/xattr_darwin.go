package worktree

import "golang.org/x/sys/unix"

const errNoXattr = unix.ENOATTR

func (d *osFolder) xattrs(name string, want wantXattr) (map[string][]byte, error) {
	a, err := d.pin(name)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.xattrs(want)
}

func (d *osFolder) pin(name string) (openPath, error) {
	if name == "" {
		name = "."
	}
	fd, err := retryOpen(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return osFile(fd), nil
}

func retryOpen(open func() (int, error)) (fd int, err error) {
	err = retry(func() error { fd, err = open(); return err })
	return fd, err
}

func (f osFile) chown(uid, gid uint32) error {
	return retry(func() error { return unix.Fchown(int(f), int(uid), int(gid)) })
}

func (f osFile) setXattr(name string, value []byte) error {
	return retry(func() error { return unix.Fsetxattr(int(f), name, value, 0) })
}

func (f osFile) removeXattr(name string) error {
	return retry(func() error { return unix.Fremovexattr(int(f), name) })
}

// mknod makes nothing: macOS has no call for it that takes a folder.
func (d *osFolder) mknod(string, uint32, uint64) error { return unix.ENOTSUP }
