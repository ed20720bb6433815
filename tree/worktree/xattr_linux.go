package worktree

import (
	"strconv"

	"golang.org/x/sys/unix"
)

const errNoXattr = unix.ENODATA

// procPath returns a path to a name of the folder, or to the folder itself. Linux has no
// calls for extended attributes that take a folder and a name.
func (d *osFolder) procPath(name string) string {
	at := "/proc/self/fd/" + strconv.Itoa(d.fd)
	if name != "" {
		at += "/" + name
	}
	return at
}

func (d *osFolder) xattrs(name string, want wantXattr) (map[string][]byte, error) {
	at := d.procPath(name)
	if name == "" {
		at += "/."
	}
	return readXattrs(want,
		func(buf []byte) (int, error) { return unix.Llistxattr(at, buf) },
		func(name string, buf []byte) (int, error) { return unix.Lgetxattr(at, name, buf) })
}

// pinned is a path opened with O_PATH: calls go through its name in /proc.
type pinned struct{ osFile }

func (d *osFolder) pin(name string) (openPath, error) {
	if name == "" {
		name = "."
	}
	fd, err := openat(d.fd, name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	return pinned{osFile(fd)}, nil
}

func (p pinned) chmod(perm uint32) error { return chmodPathFD(int(p.osFile), perm) }

func (p pinned) xattrs(want wantXattr) (map[string][]byte, error) {
	return readXattrs(want,
		func(buf []byte) (int, error) { return unix.Listxattr(p.procPath(), buf) },
		func(name string, buf []byte) (int, error) { return unix.Getxattr(p.procPath(), name, buf) })
}

func (f osFile) procPath() string { return "/proc/self/fd/" + strconv.Itoa(int(f)) }

func (f osFile) chown(uid, gid uint32) error {
	return retry(func() error { return unix.Fchownat(int(f), "", int(uid), int(gid), unix.AT_EMPTY_PATH) })
}

func (f osFile) setXattr(name string, value []byte) error {
	return retry(func() error { return unix.Setxattr(f.procPath(), name, value, 0) })
}

func (f osFile) removeXattr(name string) error {
	return retry(func() error { return unix.Removexattr(f.procPath(), name) })
}

func (d *osFolder) mknod(name string, mode uint32, device uint64) error {
	return retry(func() error { return unix.Mknodat(d.fd, name, mode, int(device)) })
}
