//go:build !linux

package cli

import "syscall"

// dieWithParent has no portable form: elsewhere a command outlives a wrapper
// that is killed with SIGKILL, and the lease then ends under it.
func dieWithParent(*syscall.SysProcAttr) {}
