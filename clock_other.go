//go:build !linux

package redlock

import "time"

// bootTime has no portable form elsewhere; the wall clock has to show a suspend.
func bootTime(mono time.Duration) time.Duration { return mono }
