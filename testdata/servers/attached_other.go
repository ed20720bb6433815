//go:build !linux

package main

import "syscall"

// attached returns attributes of a child process that ^C does not reach. The child survives if
// this process is killed: only Linux can prevent that.
func attached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
