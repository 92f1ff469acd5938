package attack

import "syscall"

// ofItsOwn puts a client into a process group of its own, so that an interrupt
// from the terminal leaves the end of the run to the parent, and lets the kernel
// kill it when the parent dies: one that is stopped would never notice.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
