//go:build !linux

package attack

import "syscall"

// ofItsOwn puts a client into a process group of its own. Without its parent it
// ends as its input does.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
