//go:build !linux

package mount

import "golang.org/x/sys/unix"

const isLinux = false

// detach unmounts a folder that is in use.
func detach(dir string) error { return unix.Unmount(dir, unix.MNT_FORCE) }

// Command is the command by which the present user can unmount.
var Command = "umount"
