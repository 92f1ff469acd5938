package cli

import "syscall"

// dieWithParent lets the kernel kill the command when the wrapper is killed: a
// command that lives on would work without the lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
