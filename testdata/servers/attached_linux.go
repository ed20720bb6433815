package main

import "syscall"

// attached makes a process that ^C does not reach, and that is killed when
// this one ends in whatever way.
func attached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
