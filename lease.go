package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Lease is what a holder has: the right to a name until it is released or lost.
// It is made by Acquire and TryAcquire, and safe for concurrent use.
//
// It is a lease, not a mutex: it ends by itself. Work under its Context, or
// under Do, stops when it may no longer rely on it; work that ignores both may
// overlap with the next holder's.
type Lease struct {
	b       *holder
	fence   Fence
	gen     uint32          // it owns b while b's is the same
	grip    *grip           // nil but for a nested lease
	end     time.Time       // Until, once b was handed on or the handle released; guarded by b.mu
	base    context.Context // values only
	cleanup runtime.Cleanup

	mu  sync.Mutex
	ctx context.Context
}

func newLease(ctx context.Context, b *holder) *Lease {
	b.mu.Lock()
	le := &Lease{b: b, gen: b.h.gen, fence: b.h.number(), base: ctx}
	b.mu.Unlock()
	// A lease that nobody can release any more must not be renewed for ever
	// (promise P4). The holder does not lead back to the Lease.
	le.cleanup = runtime.AddCleanup(le, (*holder).abandon, b)
	return le
}

// Names are the names that the lease holds.
func (le *Lease) Names() []string { return le.b.h.names() }

// Token is the value that stands at the lock's key: unique to this lease. It is
// a secret of sorts: whoever knows it can release the lock.
func (le *Lease) Token() string { return le.b.h.token }

// Fence is greater than that of every lease of the name that was granted before,
// to be given to the resource with every write; extending does not change it. It is
// 0 without [WithFencing].
func (le *Lease) Fence() Fence { return le.fence }

// Until is when the validity ends that was confirmed last. After Release it
// stays what it was; Err tells.
func (le *Lease) Until() time.Time {
	le.b.mu.Lock()
	defer le.b.mu.Unlock()
	if le.gen != le.b.h.gen || le.gone() {
		return le.end
	}
	return le.b.h.valid.until()
}

// Err is nil while the holder may rely on the lease, the *[LostError] after a
// loss and [ErrReleased] after a Release. It compares the clock itself, so it
// is right even where timers are late (promise P6).
func (le *Lease) Err() error {
	if le.over() {
		return ErrReleased
	}
	err := le.b.check(le.gen)
	runtime.KeepAlive(le)
	return err
}

// Extend sets the validity to at least ttl from now, less the drift, and never
// shortens it. ttl is at most the max TTL. When no majority confirms it the old
// validity stands and the error is a *[QuorumError]; after a loss it is the
// *[LostError], after a Release [ErrReleased] (promise P9).
func (le *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	o := le.b.opts
	if o.ttl = ttl; o.minHold > ttl {
		o.minHold = 0
	}
	if err := o.check(&le.b.l.set); err != nil {
		return err
	}
	if le.over() {
		return ErrReleased
	}
	err := le.b.extend(ctx, ceilMillis(ttl), le.gen)
	runtime.KeepAlive(le)
	return err
}

// Release frees the name (promise P7). It ignores ctx's cancellation, not its
// values, and takes at most the node timeout.
//
// Nil: the lease was valid and is over. A *[LostError]: it had ended before, so
// work may have overlapped with another holder's. A *[QuorumError]: no majority
// answered; the lease is over for its holder and the deletes are still owed to
// the nodes; calling again tries again. [ErrReleased]: it was released before.
func (le *Lease) Release(ctx context.Context) error {
	err := le.b.release(ctx, le)
	le.cleanup.Stop()
	runtime.KeepAlive(le)
	return err
}

// Context is done when the lease is released or lost, with the cause
// (context.Cause): a *[LostError] or [ErrReleased]. It carries the values of
// the context that Acquire had, not its cancellation. It is done before Until,
// whatever the network does (promise P6).
func (le *Lease) Context() context.Context {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.ctx == nil {
		inner, cancel := context.WithCancelCause(context.WithoutCancel(le.base))
		b := le.b
		b.mu.Lock()
		switch {
		case le.gen != b.h.gen || le.gone():
			cancel(ErrReleased)
		case b.h.lost != nil:
			cancel(b.h.lost)
		case b.h.state != stateHeld:
			cancel(ErrReleased)
		case le.grip != nil:
			le.grip.cancel = cancel
		default:
			b.cancel = cancel
		}
		b.mu.Unlock()
		le.ctx = &leaseContext{Context: inner, lease: le, cancel: cancel}
	}
	return le.ctx
}

// leaseContext is a context that dies with its lease. Its Err compares the
// clock, because its timer may be late.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

// Err is the context's, and Canceled as soon as the lease does not stand.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := c.lease.Err(); err != nil {
		c.cancel(err)
	}
	return c.Context.Err()
}

// Value finds the lease for FromContext, and for an Acquire that would wait for
// itself.
func (c *leaseContext) Value(key any) any {
	switch k := key.(type) {
	case leaseKey:
		return c.lease
	case heldKey:
		if k.l == c.lease.b.l && slices.Contains(c.lease.b.h.names(), k.name) && c.lease.Err() == nil {
			return c.lease
		}
	}
	return c.Context.Value(key)
}

type leaseKey struct{}

type heldKey struct {
	l    *Locker
	name string
}

// FromContext is the innermost lease of a context that is derived from
// Lease.Context or was given by Do.
func FromContext(ctx context.Context) (*Lease, bool) {
	le, ok := ctx.Value(leaseKey{}).(*Lease)
	return le, ok
}
