package main

import "syscall"

// attached returns attributes of a child process that ^C does not reach. The kernel kills the
// child when this process ends, in any way.
func attached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
