package mount

import (
	"os"
	"os/exec"
	"syscall"
)

const isLinux = true

// detach unmounts a folder that is in use.
func detach(dir string) error {
	if os.Geteuid() == 0 {
		return syscall.Unmount(dir, syscall.MNT_DETACH)
	}
	program := "fusermount3"
	if _, err := exec.LookPath(program); err != nil {
		program = "fusermount"
	}
	return exec.Command(program, "-u", "-z", "--", dir).Run()
}

// Command is the command by which the present user can unmount.
var Command = func() string {
	if os.Geteuid() == 0 {
		return "umount"
	}
	return "fusermount3 -u"
}()
