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

func (d *osFolder) xattrs(name string) (map[string][]byte, error) {
	at := d.procPath(name)
	if name == "" {
		at += "/."
	}
	return readXattrs(
		func(buf []byte) (int, error) { return unix.Llistxattr(at, buf) },
		func(name string, buf []byte) (int, error) { return unix.Lgetxattr(at, name, buf) })
}
