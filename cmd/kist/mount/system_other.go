//go:build !linux

package mount

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	isLinux     = false
	passThrough = 0
)

// Real returns the path of the folder without symlinks.
func (f *Folder) Real() (string, error) { return filepath.EvalSymlinks(f.path) }

// mountFolder returns the path for go-fuse: macFUSE mounts by path.
func (f *Folder) mountFolder(*Options) (path string, err error) { return f.path, nil }

func (m *Mounted) unmountFolder() error { return m.server.Unmount() }

// detachFolder unmounts a folder that is in use.
func (m *Mounted) detachFolder() error { return unix.Unmount(m.folder.path, unix.MNT_FORCE) }

// Command is the command by which the present user can unmount.
var Command = "umount"
