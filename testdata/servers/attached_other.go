//go:build !linux

package main

import "syscall"

// attached makes a process that ^C does not reach. It stays if this one is
// killed: only Linux has a way to prevent that.
func attached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
