//go:build !linux

package sftp

import "syscall"

// dieWithParent returns nothing: this system cannot end a program with its parent. Ssh ends when its input does.
func dieWithParent() *syscall.SysProcAttr { return nil }
