package redisproc

import "syscall"

// dieWithParent lets the kernel kill the child when the thread that started it
// ends, which redisproc keeps until the child is gone.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
