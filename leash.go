package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is what a holder does while its lease stands: renewal, loss, and
// the release.

// dueAt is when the scheduler has to look at the lease next.
func (b *holder) dueAt() time.Duration {
	h := &b.h
	now := h.valid.from.mono // everything below is on the monotonic clock
	at := now + h.valid.length - h.margin()
	if b.opts.maxHold > 0 {
		at = min(at, h.since.mono+b.opts.maxHold)
	}
	switch {
	case h.out:
		at = min(at, h.asked.mono+b.l.set.nodeTimeout)
	case b.opts.renew:
		at = min(at, b.renewAt())
	}
	return at
}

// renewAt is when the next extend round is due: a third of the TTL after the
// last one was sent, or after a failure with growing pauses, so that at least
// two renewals may be missed.
func (b *holder) renewAt() time.Duration {
	h := &b.h
	if h.fails == 0 {
		return h.valid.from.mono + h.ttl/3
	}
	pause := min(max(h.ttl/50, time.Millisecond)<<min(h.fails-1, 8), h.ttl/6)
	return h.asked.mono + pause
}

// tick is the scheduler's look at the lease. ok is false when it needs no other.
func (b *holder) tick(now moment) (at time.Duration, ok bool) {
	b.mu.Lock()
	h := &b.h
	if h.state != stateHeld {
		b.mu.Unlock()
		return 0, false
	}
	switch {
	case h.valid.left(now.instant) <= h.margin():
		b.lose(b.expiry()) // unlocks
		return 0, false
	case b.opts.maxHold > 0 && now.since(h.since.instant) >= b.opts.maxHold:
		b.lose(LostMaxHold)
		return 0, false
	case h.out && now.mono-h.asked.mono >= b.l.set.nodeTimeout:
		b.extendDecided(h.extendExpired()) // unlocks
		b.mu.Lock()
	case !h.out && b.opts.renew && now.mono >= b.renewAt():
		b.sendExtends(h.ttl, now) // unlocks
		b.mu.Lock()
	}
	at, ok = b.dueAt(), h.state == stateHeld
	b.mu.Unlock()
	return at, ok
}

// expiry is why a lease ends whose validity is over.
func (b *holder) expiry() LostReason {
	if b.h.fails > 0 || b.h.out {
		return LostNoQuorum
	}
	return LostExpired
}

// sendExtends begins an extend round. The guard is held, and is given up.
func (b *holder) sendExtends(ttl time.Duration, now moment) {
	seq := b.h.extendAll(ttl, now)
	b.mu.Unlock()
	calls := make([]call, len(b.l.voters))
	for i, v := range b.l.voters {
		calls[i] = call{op: seam.Extend, node: int32(i), seq: seq, t: &b.h.tenure, ttl: ttl, sink: b}
		v.submit(&calls[i], now, false)
	}
}

// extendDecided deals with an extend round that may be decided. The guard is
// held, and is given up.
func (b *holder) extendDecided(o outcome) {
	h := &b.h
	switch o {
	case roundOpen:
		b.mu.Unlock()
		return
	case roundLost:
		b.lose(h.lostReason())
		return
	}
	var err error
	if o == roundFailed {
		g, hd, f, p := h.extendTally()
		err = &QuorumError{
			Name: h.name, N: len(h.nodes), Need: h.round.need, Granted: g, Held: hd, Failed: f, Pending: p,
			Nodes: h.nodeErrors("extend", b.l.names), late: g >= h.round.need,
		}
	}
	h.renewed = err
	b.wakeExtenders()
	at, watched := b.dueAt(), b.watched
	event := RenewEvent{
		Names: h.names(), Until: h.valid.until(), Err: err,
		Took: quick(b.l.set.clock).mono - h.asked.mono,
	}
	b.mu.Unlock()
	if watched {
		b.l.sched.set(b, at)
	}
	b.l.tellRenewed(event)
}

// wakeExtenders wakes everybody who waits for an extend round.
func (b *holder) wakeExtenders() {
	if b.ended != nil {
		close(b.ended)
		b.ended = nil
	}
}

// lose ends the lease, once. The guard is held, and is given up. Except after
// max hold and Close, where the holder may still work under the key, what it
// left on the nodes is freed.
func (b *holder) lose(reason LostReason) {
	h := &b.h
	if h.state != stateHeld {
		b.mu.Unlock()
		return
	}
	lost := h.end(reason, b.l.names)
	b.wakeExtenders()
	cancel := b.canceller()
	held := quick(b.l.set.clock).mono - h.since.mono
	free := h.state == stateLost
	b.mu.Unlock()
	if cancel != nil {
		cancel(lost)
	}
	if free {
		b.undo()
	}
	b.l.lines.ended(b, false)
	b.l.tellLost(LostEvent{Names: lost.Names, Err: lost, Held: held})
}

// check finds out, from the clock, whether the lease still stands: timers may
// be late, the clock is not.
func (b *holder) check(gen uint32) error {
	b.mu.Lock()
	h := &b.h
	switch {
	case gen != b.h.gen:
		b.mu.Unlock()
		return ErrReleased
	case h.state == stateHeld && h.alive(read(b.l.set.clock).instant):
		b.mu.Unlock()
		return nil
	case h.state == stateHeld:
		b.lose(b.expiry())
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if h.lost != nil && gen == b.h.gen {
		return h.lost
	}
	return ErrReleased
}

// extend is Lease.Extend: a round of its own, after the one that may be out.
func (b *holder) extend(ctx context.Context, ttl time.Duration, gen uint32) error {
	for {
		if err := b.check(gen); err != nil {
			return err
		}
		b.mu.Lock()
		mine := !b.h.out && b.h.state == stateHeld && b.h.gen == gen
		if b.ended == nil {
			b.ended = make(chan struct{})
		}
		ended := b.ended
		if mine {
			b.sendExtends(ttl, read(b.l.set.clock)) // unlocks
			b.watch()
		} else {
			b.mu.Unlock()
		}
		if err := b.awaitExtend(ctx, ended); err != nil {
			return err
		}
		if mine {
			if err := b.check(gen); err != nil {
				return err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.h.renewed
		}
	}
}

// awaitExtend waits for an extend round to be decided, at most for the node
// timeout.
func (b *holder) awaitExtend(ctx context.Context, ended <-chan struct{}) error {
	t := b.l.getTimer(b.l.set.nodeTimeout)
	defer b.l.putTimer(t)
	select {
	case <-ended:
	case <-t.C:
		b.mu.Lock()
		b.extendDecided(b.h.extendExpired()) // unlocks
	case <-ctx.Done():
		return &waitError{ctx: ctx.Err(), cause: context.Cause(ctx)}
	}
	return nil
}

// watch puts the lease under the scheduler's eye, which ends it in time.
func (b *holder) watch() {
	b.mu.Lock()
	b.watched = b.h.state == stateHeld
	at, ok := b.dueAt(), b.watched
	b.mu.Unlock()
	if ok {
		b.l.sched.set(b, at)
	}
}

// release is Lease.Release (promise P7).
func (b *holder) release(ctx context.Context, le *Lease) error {
	for {
		now := read(b.l.set.clock)
		b.mu.Lock()
		if le.gen != b.h.gen && !b.l.set.mutant.has(mutantOldHandle) {
			b.mu.Unlock()
			return ErrReleased // handed over: what it held is another's
		}
		if le.gone() && !b.h.mutant.has(mutantReleasedTwice) {
			b.mu.Unlock()
			return ErrReleased
		}
		if b.h.state == stateHeld && b.h.valid.left(now.instant) <= 0 {
			b.lose(b.expiry()) // whatever its timer says; unlocks
			continue
		}
		switch b.h.state {
		case stateLost:
			return b.releaseLost(ctx, now)
		case stateReleased:
			b.mu.Unlock()
			return ErrReleased
		case stateReleasing:
			if b.freed == nil {
				b.freed = make(chan struct{})
			}
			freed := b.freed
			b.mu.Unlock()
			<-freed // bounded by the node timeout of whoever works
			continue
		case stateLeft:
			if b.letGo(le) { // unlocks, if it does
				return nil
			}
		case stateHeld:
			if b.letGo(le) || b.handOver(ctx, le, now) { // unlocks, if it does
				return nil
			}
		}
		return b.free(ctx, now)
	}
}

// releaseLost is a Release that came after the end. The first is told to the
// hooks: it is how a holder that overran is noticed. The guard is held, and is
// given up.
func (b *holder) releaseLost(ctx context.Context, now moment) error {
	lost, told := b.h.lost, b.told
	b.told = true
	held, left := now.mono-b.h.since.mono, b.h.valid.left(now.instant)
	b.mu.Unlock()
	if !told {
		b.l.tellReleased(ctx, ReleaseEvent{Names: lost.Names, Held: held, Left: left, Err: lost})
	}
	return lost
}

// free sends the deletes and waits for the verdict. The guard is held, and is
// given up.
func (b *holder) free(ctx context.Context, now moment) error {
	h := &b.h
	held := now.mono - h.since.mono
	if h.state != stateUnfreed {
		b.left = h.valid.left(now.instant)
	}
	left := b.left
	again := h.state == stateUnfreed
	b.told = true
	seq := h.releaseAll()
	b.result = freeOpen
	select {
	case <-b.decided: // of the acquire, or of a Release that was late
	default:
	}
	b.wakeExtenders()
	cancel := b.canceller()
	keep := max(0, ceilMillis(h.minHold-held))
	b.mu.Unlock()
	b.l.sched.drop(b)
	if cancel != nil {
		cancel(ErrReleased)
	}
	calls := b.inline.frees[:]
	if again || len(b.l.voters) > inlineNodes {
		calls = make([]call, len(b.l.voters)) // those of a Release before may still be out
	}
	alone := len(b.l.voters) == 1
	for i, v := range b.l.voters {
		c := &calls[i]
		*c = call{op: seam.Release, node: int32(i), seq: seq, t: &h.tenure, ttl: keep, sink: b}
		v.submit(c, now, alone)
	}
	wait := context.Background()
	if b.l.set.mutant.has(mutantReleaseOnCtx) {
		wait = ctx
	}
	_ = b.await(wait) // it ignores the cancellation of ctx: hazard H32
	err := b.freedResult(left)
	b.l.lines.ended(b, b.standsBack())
	b.l.tellReleased(ctx, ReleaseEvent{Names: h.names(), Held: held, Left: left, Err: err})
	return err
}

// freedResult settles a Release and wakes the others who wait for it.
func (b *holder) freedResult(left time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.h
	if b.result == freeOpen {
		if b.result = h.releaseExpired(); b.result == freeOpen {
			b.result = freeNoNode
		}
	}
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	switch {
	case h.lost != nil && h.lost.Reason == LostClosed:
		h.state = stateLost // the lanes are gone, so nothing could be sent
		return h.lost
	case b.result == freeLost || left <= 0:
		if h.lost == nil {
			reason := LostTaken
			if left <= 0 {
				reason = LostExpired
			}
			h.lost = &LostError{
				Names: h.names(), Reason: reason, Until: h.valid.until(),
				Nodes: h.nodeErrors("release", b.l.names),
			}
		}
		h.state = stateLost
		return h.lost
	case b.result == freeNoNode:
		h.state = stateUnfreed
		g, hd, f, p := h.releaseTally()
		return &QuorumError{
			Name: h.name, N: len(h.nodes), Need: h.round.need, Granted: g, Held: hd, Failed: f, Pending: p,
			Nodes: h.nodeErrors("release", b.l.names), late: true,
		}
	}
	h.state = stateReleased
	return nil
}

// abandon stops the renewal of a lease that nobody can release any more.
func (b *holder) abandon() {
	b.mu.Lock()
	if b.grips.open() > 1 { // nested ones go on
		b.grips.first = true
		b.mu.Unlock()
		return
	}
	held := b.h.state == stateHeld
	b.opts.renew = false
	b.mu.Unlock()
	if held {
		b.l.log.warn("abandoned", "redlock: a lease became unreachable without Release; it is not renewed any more and ends with its TTL",
			"name", b.h.name)
	}
}
