//go:build linux && (amd64 || arm64)

package worktree

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lstatListed is lstat for a name of a listing. It does not copy the name.
func (d *osFolder) lstatListed(l *listing, i int) (fileStat, error) {
	var st unix.Stat_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(d.fd), uintptr(unsafe.Pointer(&l.names[l.entries[i].off])),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		switch errno {
		case 0:
			return statFrom(&st), nil
		case syscall.EINTR:
		default:
			return fileStat{}, errno
		}
	}
}
