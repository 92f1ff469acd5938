package redlock

import (
	"context"
	"reflect"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// maxHandOvers is how often in a row a lease passes on inside a process. Then it
// is released, whether or not others wait, so that no process starves.
const maxHandOvers = 8

// alike says whether a waiter would get what it asked for from a lease that was
// made for another. How long it waits, and for how long it may hold, are its own.
func alike(a, b *lockSettings) bool {
	if a.ttl != b.ttl || a.label != b.label || a.renew != b.renew {
		return false
	}
	x, y := *a, *b
	x.wait, x.backoff, x.minHold, x.maxHold = 0, nil, 0, 0
	y.wait, y.backoff, y.minHold, y.maxHold = 0, nil, 0, 0
	return reflect.DeepEqual(&x, &y) //nolint:govet // err is nil by then, and what is added later makes a difference, too
}

// passes says whether a lease may pass on inside the process.
func (h *hold) passes(now moment) bool {
	switch {
	case h.handed >= maxHandOvers && !h.mutant.has(mutantNoStandBack):
		return false
	case now.mono-h.since.mono < h.minHold: // the release keeps the key for what is left
		return false
	}
	return h.alive(now.instant) || h.mutant.has(mutantStaleGift) && h.state == stateHeld
}

// passed gives it another owner, whose hold begins now.
func (h *hold) passed(now moment, minHold time.Duration) {
	h.gen++
	h.handed++
	h.minHold, h.since = minHold, now
}

// received looks at it from the other end: whether it still stands, and whether it
// is to be extended first because less than two thirds of its TTL are left.
func (h *hold) received(now moment) (alive, short bool) {
	if h.mutant.has(mutantStaleGift) {
		return true, false
	}
	return h.alive(now.instant), 3*h.valid.left(now.instant) < 2*h.ttl
}

// handOver passes the lease to the next waiter of this process, if there is one
// that wants just this, without asking a node. le is whose it was; nil for a waiter
// that could not take it. The guard is held, and is given up only if it does.
//
// The holder stays what it is: the owner of its token, to the lanes and in the eyes
// of every debt, without a moment between. What changes, in one step under its
// guard, is which Lease it answers to.
func (b *holder) handOver(ctx context.Context, le *Lease, now moment) bool {
	h := &b.h
	held := now.mono - h.since.mono
	if !h.passes(now) || b.l.isClosed() {
		return false
	}
	t := b.l.lines.heirOf(b)
	if t == nil {
		return false
	}
	left := h.valid.left(now.instant)
	if le != nil {
		le.end = h.valid.until()
	}
	h.passed(now, t.o.minHold)
	b.opts.wait, b.opts.backoff = t.o.wait, t.o.backoff
	b.opts.maxHold, b.opts.minHold = t.o.maxHold, t.o.minHold
	b.wakeExtenders()
	cancel := b.canceller()
	b.cancel, b.grips = nil, grips{}
	at, watched := b.dueAt(), b.watched
	b.mu.Unlock()
	if h.mutant.has(mutantOwnerless) {
		b.undo() // as is done to a token whose owner is gone
	}
	if watched {
		b.l.sched.set(b, at)
	}
	if cancel != nil {
		cancel(ErrReleased) // before the next one has it
	}
	if le != nil {
		b.l.tellReleased(ctx, ReleaseEvent{Names: h.names(), Held: held, Left: left})
	}
	t.poke()
	return true
}

// take makes a Lease of what was handed to this call. Nil: it no longer stands, or
// too little was left of it and could not be had; the wait goes on.
func (w *waiting) take(ctx context.Context, b *holder) *Lease {
	l := w.l
	b.mu.Lock()
	gen := b.h.gen
	now := read(l.set.clock)
	held := b.h.state == stateHeld
	alive, short := b.h.received(now)
	b.mu.Unlock()
	if !held {
		return nil // lost meanwhile, which was seen to
	}
	if ctx.Err() != nil {
		l.decline(b)
		return nil
	}
	if short && alive {
		until, cancel := w.bound(ctx)
		alive = b.extend(until, b.h.ttl, gen) == nil && b.check(gen) == nil
		cancel()
	}
	if !alive || ctx.Err() != nil {
		l.decline(b)
		return nil
	}
	w.attempts++
	return newLease(ctx, b)
}

// decline is for a lease that was handed to a call which cannot use it: the next
// in line gets it, or it is released. It does not wait for the nodes.
func (l *Locker) decline(b *holder) {
	now := read(l.set.clock)
	b.mu.Lock()
	h := &b.h
	if h.state != stateHeld {
		b.mu.Unlock()
		return
	}
	if h.valid.left(now.instant) > 0 && b.handOver(context.Background(), nil, now) {
		return // unlocked
	}
	seq := h.releaseAll()
	h.state = stateReleased
	b.wakeExtenders()
	b.mu.Unlock()
	l.sched.drop(b)
	for i, v := range l.voters {
		v.submit(&call{op: seam.Release, node: int32(i), seq: seq, t: &h.tenure, sink: b}, now, false)
	}
	l.lines.ended(b, b.standsBack())
}

// standsBack says whether, after a release, this process leaves the name to others
// even if none of them is known to have been woken.
func (b *holder) standsBack() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.h.handed >= maxHandOvers && !b.quiet
}

// late looks again, after a wait, whether what was won still stands. Not to look
// was a bug of etcd's.
func (b *holder) late() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.h
	if h.valid.left(read(b.l.set.clock).instant) > 0 || h.mutant.has(mutantWonLate) {
		return nil
	}
	err := b.verdict(granted, errLate)
	h.state = stateFailed
	h.over.Store(true)
	b.undo()
	return err
}

// broken keeps a lease that Break names from being handed over: its next renewal
// finds that it is lost.
func (ls *lines) broken(name, token string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if b := ls.held[name]; b != nil && b.h.token == token {
		b.broken = true
	}
}

// bound is ctx with the end of WithWait.
func (w *waiting) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, w.until)
}

// passes asks the node that woke us alone, and says whether the others are to be
// asked, too. A refusal there ends the round without a verdict, at the cost of one
// call: whoever was faster has the name, or splits no votes with us.
func (b *holder) passes(ctx context.Context, c *call) bool {
	l := b.l
	b.mu.Lock()
	b.gated = true
	b.mu.Unlock()
	v := l.voters[c.node]
	v.submit(c, b.h.from, false)
	b.gateWait(ctx, v)
	b.mu.Lock()
	b.gated = false
	refused := b.h.round.votes[c.node] == voteHeld
	if decided := b.h.round.outcome != undecided; decided {
		b.signal()
	}
	if refused {
		b.h.state = stateFailed
		b.h.over.Store(true)
	}
	b.mu.Unlock()
	return !refused
}

// gateWait waits for the first node, for two of its usual round trips.
func (b *holder) gateWait(ctx context.Context, v *voter) {
	v.mu.Lock()
	patience := max(2*v.n.rtt.least(), gateLeast)
	v.mu.Unlock()
	t := b.l.getTimer(patience)
	defer b.l.putTimer(t)
	select {
	case <-b.decided:
	case <-t.C:
	case <-ctx.Done():
	}
}

// gateLeast is what the machine's scheduling may add to two round trips.
const gateLeast = 500 * time.Microsecond
