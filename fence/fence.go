// Package fence is the resource's side of fencing: what a store, a file or a
// service does with the number of a lease (redlock.WithFencing, Lease.Fence), so
// that a holder who is late writes nothing.
//
// A lease can end while its holder is paused, and no lock can stop what the holder
// sends afterwards. The resource can: it remembers the highest number that it has
// seen for a key, and refuses every lower one. For that, looking and writing must be
// one step. Each of these makes them one:
//
//   - [Gate]: a process that owns the resource, under a mutex per key
//   - [SQL]: a transaction of database/sql, behind a conditional UPDATE
//   - [Exec]: your own UPDATE … WHERE fence <= n, when the row has the number
//   - [File]: a file on a local disk, under flock(2)
//   - [Middleware]: an HTTP service, which answers 412 to an older number
//   - package fenceredis: one command on a Redis, in a script
//
// Package fencetest tests that a resource of your own does.
//
// Equal numbers pass, since a holder writes more than once. Numbers are from 1 to
// 2^53-1; 0 is that of a lease without fencing, and is refused, because a resource
// that lets it pass protects nothing. A resource that forgets its numbers lets late
// writers in until the next number comes: keep them with the data.
//
// The package needs the standard library only. It takes numbers as uint64:
// uint64(lease.Fence()).
package fence

import (
	"errors"
	"fmt"
)

// Most is the highest number: what a float64, and so Lua and JSON, can still tell
// from its neighbours.
const Most = 1<<53 - 1

// ErrStale: the resource has seen a higher number, so whoever sends this one has
// lost its lease. Nothing was written. It must stop; trying again cannot help.
var ErrStale = errors.New("fence: stale number")

// ErrNumber: the number is 0 or above [Most], so it is not that of a lease with
// fencing. Nothing was written.
var ErrNumber = errors.New("fence: not a fencing number")

// StaleError is a write that was refused. It Is [ErrStale].
type StaleError struct {
	Key     string
	Fence   uint64 // the number of the write
	Highest uint64 // the highest seen; 0 where the resource does not say
}

func (e *StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("fence: %q: %d is stale: a later holder was here; stop, and acquire again", e.Key, e.Fence)
	}
	return fmt.Sprintf("fence: %q: %d is stale: a holder with %d was here; stop, and acquire again", e.Key, e.Fence, e.Highest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// NumberError is a number that no lease with fencing has. It Is [ErrNumber].
type NumberError struct {
	Key   string
	Fence uint64
}

func (e *NumberError) Error() string {
	if e.Fence == 0 {
		return fmt.Sprintf("fence: %q: 0 is the number of a lease without fencing: acquire it with WithFencing", e.Key)
	}
	return fmt.Sprintf("fence: %q: %d is above the highest number, %d: send the lease's Fence as it is", e.Key, e.Fence, uint64(Most))
}

// Is reports whether target is [ErrNumber].
func (e *NumberError) Is(target error) bool { return target == ErrNumber }

// Check is the rule for the number alone, which every resource applies first: a
// *[NumberError] unless it is from 1 to [Most].
func Check(key string, n uint64) error {
	if n == 0 || n > Most {
		return &NumberError{key, n}
	}
	return nil
}
