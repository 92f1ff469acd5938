// Package redlock is a lock that lives on N independent Redis masters and is
// held by whoever wins a majority of them.
//
// # Model
//
// [New] makes a [Locker] over a list of nodes; [Locker.Acquire] and
// [Locker.TryAcquire] make a [Lease] on a name; [Locker.Do] runs a function
// under one. A lease is won by SET NX PX on all nodes at once, when a majority
// grants it within its validity: the TTL, less the time since the first byte
// was sent, less the drift that clocks may have. It is renewed every third of
// the TTL, and released by a compare-and-delete on every node.
//
// # Promise
//
// For each name the intervals from the return of an acquire to the first of
// Release's call, the end of Lease.Context and Lease.Until of any two holders
// do not overlap, while a minority of the nodes is dead, hung, slow, forgetful
// or cut off, as long as clocks run alike within the drift, all clients share
// one list of nodes, one N and one key prefix, and nobody else deletes the
// lock's keys. A node that restarted, was promoted or lost its data knows that
// it may have forgotten leases (the seal) and abstains until they have ended
// (quarantine).
//
// # Waiting
//
// Who waits does not poll. Callers of one Locker line up per name, and the first
// of them registers at one node, from where a release wakes the process that has
// waited for longest; a poll, at most a second later, is the safety net for a
// wake-up that was lost. [WithBackoff] sets the pause where no wake-up can come:
// after a round without quorum, after a split vote, and while no node can be
// listened to. A release with a next caller in the same Locker that asked for the
// same TTL, label and renewal hands the lease over without asking a node, at most
// eight times in a row.
//
// # Limits
//
// A lease is not a mutex: code that goes on when its context is done may
// overlap with the next holder. No lock service can stop a process that was
// paused at the wrong moment. Where that must not happen, let the resource
// check; docs/safety.md says what is assumed and what is not promised.
package redlock
