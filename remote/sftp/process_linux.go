package sftp

import "syscall"

// dieWithParent makes the system end a program when this process ends, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
