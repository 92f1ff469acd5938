//go:build !linux

package redisproc

import "syscall"

// dieWithParent has no portable form: elsewhere a child outlives a parent that
// is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
