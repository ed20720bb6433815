package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	isLinux     = true
	passThrough = unix.O_PATH // needs no right to list the folder
)

// Real returns the path of the folder without symlinks.
func (f *Folder) Real() (string, error) { return os.Readlink(numbered(f.dir)) }

// mountFolder mounts on the folder itself, if the process may, and returns the path for go-fuse.
// Otherwise go-fuse calls fusermount3 with the path. That mounts only where the user may
// write, so an exchanged folder gains nothing.
func (f *Folder) mountFolder(o *Options) (path string, err error) {
	if !isRoot() {
		return f.path, nil
	}
	fuse, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}

	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=%d,max_read=%d", fuse, os.Getegid(), maxRead)
	if o.Other {
		data += ",default_permissions,allow_other"
	}
	const flags = syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV
	if err := syscall.Mount(o.Name, numbered(f.dir), "fuse.kist", flags, data); err != nil {
		syscall.Close(fuse)
		return "", err
	}
	return fmt.Sprintf("/dev/fd/%d", fuse), nil // go-fuse takes the descriptor over
}

// coveredPath returns a path to the mounted folder. The system refuses to rename it, so only the
// folders above can be exchanged.
func (f *Folder) coveredPath() string { return numbered(f.above) + "/" + f.name }

// unmountTries is how often unmount waits for a program that has just used a file.
const unmountTries = 5

// unmountFolder unmounts a folder, unless it is in use.
func (m *Mounted) unmountFolder() error {
	if !isRoot() {
		return m.server.Unmount()
	}
	for try := 1; ; try++ {
		err := syscall.Unmount(m.folder.coveredPath(), unix.UMOUNT_NOFOLLOW)
		if !errors.Is(err, syscall.EBUSY) || try == unmountTries {
			return err
		}
		time.Sleep(time.Duration(5<<try) * time.Millisecond)
	}
}

// detachFolder unmounts a folder that is in use.
func (m *Mounted) detachFolder() error {
	if isRoot() {
		return syscall.Unmount(m.folder.coveredPath(), syscall.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return exec.Command(fusermount(), "-u", "-z", "--", m.folder.path).Run()
}

func fusermount() string {
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return "fusermount"
	}
	return "fusermount3"
}

func isRoot() bool { return os.Geteuid() == 0 }

// Command is the command by which the present user can unmount.
var Command = func() string {
	if isRoot() {
		return "umount"
	}
	return "fusermount3 -u"
}()
