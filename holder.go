package redlock

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// holder is the shell around a hold: it guards the machine, sends what it wants
// through the lanes, gets the answers, and wakes whoever waits for a verdict.
// One allocation serves an attempt and the lease that it becomes.
type holder struct {
	mu sync.Mutex
	h  hold
	l  *Locker

	opts    lockSettings
	decided chan struct{} // the acquire, or the release, is decided
	ended   chan struct{} // an extend round is; made by whoever waits for it
	freed   chan struct{} // a Release is over; made by whoever waits for another's
	result  freed
	left    time.Duration // validity that was left when Release was first called

	cancel  context.CancelCauseFunc // of the Context, once somebody asked for it
	grips   grips                   // the handles; guarded by mu
	watched bool                    // renewed by the scheduler; guarded by mu
	told    bool                    // a Release was, to the hooks; guarded by mu

	gated  bool // the acquire asked one node first; guarded by mu
	broken bool // Break was called for it here: not to be handed over; guarded by lines.mu
	quiet  bool // the release woke nobody, as the designated node knows; guarded by mu

	due  time.Duration // of the scheduler, guarded by it
	slot int           // of the scheduler, guarded by it

	inline inlineBuffers
}

// inlineNodes is up to how many nodes a holder needs no further allocation.
const inlineNodes = 5

type inlineBuffers struct {
	nodes [inlineNodes]nodeHold
	votes [inlineNodes]vote
	lane  [inlineNodes]uint8
	sent  [inlineNodes]bool
	calls [inlineNodes]call
	frees [inlineNodes]call
}

func (l *Locker) newHolder(name string, o *lockSettings) *holder {
	n := len(l.voters)
	b := &holder{l: l, opts: *o, decided: make(chan struct{}, 1)}
	h := &b.h
	h.wake = wakePrefix + l.set.prefix + name // and the key is its end: one allocation
	h.name, h.key, h.token = name, h.wake[len(wakePrefix):], l.token()
	h.spot = cmp.Or(o.bucket, h.key)
	h.ttl, h.drift, h.minHold, h.mutant = o.ttl, l.set.drift, o.minHold, l.set.mutant
	if o.label != "" {
		h.label, h.hold = o.label, labelKey(h.key)
	}
	if o.fencing {
		h.fence = newFencing(n, fencePrefix+h.key, o.ttl, l.ward.quarantine)
	}
	if n <= inlineNodes {
		h.nodes, h.lane, h.sent = b.inline.nodes[:n], b.inline.lane[:n], b.inline.sent[:n]
		h.round = newRound(n, b.inline.votes[:0])
	} else {
		h.nodes, h.lane, h.sent = make([]nodeHold, n), make([]uint8, n), make([]bool, n)
		h.round = newRound(n, nil)
	}
	return b
}

// answered takes the answers to all calls of the token.
func (b *holder) answered(c *call, a *answer) {
	i := int(c.node)
	b.mu.Lock()
	switch c.op {
	case seam.Acquire:
		open := b.h.round.outcome == undecided
		if outcome := b.h.voted(i, a); open && (outcome != undecided || b.gated) {
			b.signal()
		}
	case seam.Extend:
		b.extendDecided(b.h.extended(i, c.seq, a, read(b.l.set.clock)))
		return
	case seam.Raise:
		if b.h.state == stateAcquiring && b.h.fence.back.outcome == undecided && b.h.raised(i, a) != undecided {
			b.signal()
		}
	case seam.Release, opRecheck:
		if a.reply != nil && a.reply.Woken {
			b.l.lines.woke(b.h.name)
		} else if b.h.handed >= maxHandOvers && a.code == seam.Deleted && i == b.l.designated(b.h.name) {
			b.quiet = true
		}
		if f := b.h.released(i, c.seq, a); f != freeOpen && b.result == freeOpen {
			b.result = f
			b.signal()
		}
	}
	b.mu.Unlock()
}

// signal wakes the one who waits for a verdict.
func (b *holder) signal() {
	select {
	case b.decided <- struct{}{}:
	default:
	}
}

// acquire runs one round: T0, the SETs, the verdict (design section 4). What it
// returns is nil for a lease that was won. A round that did not win is undone
// behind it, on every node that was sent anything. With a gate that node is asked
// first, and the others once it granted or was silent.
func (b *holder) acquire(ctx context.Context, gate int) error {
	l := b.l
	calls := b.inline.calls[:]
	if len(l.voters) > inlineNodes {
		calls = make([]call, len(l.voters))
	}
	patient := l.serving() < majority(len(l.voters))
	alone := len(l.voters) == 1
	b.h.from = start(l.set.clock)
	if f := b.h.fence; f != nil {
		f.propose = l.propose(b.h.spot, b.h.from)
	}
	if gate >= 0 && !alone {
		calls[gate] = call{op: seam.Acquire, node: int32(gate), t: &b.h.tenure, ttl: b.h.ttl, sink: b, patient: patient}
		if !b.passes(ctx, &calls[gate]) {
			return errGated
		}
	}
	for i, v := range l.voters {
		if i == gate && !alone {
			continue
		}
		c := &calls[i]
		*c = call{op: seam.Acquire, node: int32(i), t: &b.h.tenure, ttl: b.h.ttl, sink: b, patient: patient}
		v.submit(c, b.h.from, alone)
	}
	ctxErr := b.await(ctx)
	b.mu.Lock()
	v := b.h.round.outcome
	if v == undecided && ctxErr == nil {
		b.silent()
		v = b.h.expire()
	}
	var late error
	if v == granted && ctxErr == nil {
		late = errNoFence
		if ctxErr = b.writeBack(ctx); ctxErr == nil && b.h.fenced() {
			if b.h.won(read(l.set.clock)) {
				b.mu.Unlock()
				return nil
			}
			late = errLate
		}
	}
	err := b.verdict(v, late)
	b.h.state = stateFailed
	b.h.over.Store(true)
	b.mu.Unlock()
	b.undo()
	if ctxErr != nil {
		return &waitError{ctx: ctxErr, cause: context.Cause(ctx), verdict: err}
	}
	return err
}

// writeBack settles the fence of a round that was won, with a second round where it
// has to. The guard is held, before and after.
func (b *holder) writeBack(ctx context.Context) error {
	if b.h.settle() {
		return nil
	}
	select {
	case <-b.decided: // of the acquire
	default:
	}
	if b.h.fence.back.outcome != undecided {
		return nil
	}
	b.mu.Unlock()
	defer b.mu.Lock()
	now := quick(b.l.set.clock)
	calls := make([]call, len(b.l.voters))
	for i, v := range b.l.voters {
		if b.h.fence.asks[i] {
			calls[i] = call{op: seam.Raise, node: int32(i), t: &b.h.tenure, sink: b}
			v.submit(&calls[i], now, false)
		}
	}
	return b.await(ctx)
}

// silent notes who did not answer in time.
func (b *holder) silent() {
	for i, v := range b.h.round.votes {
		if v == votePending {
			b.h.nodes[i].err = errSilent
		}
	}
}

// await waits for the verdict, at most for the node timeout, and says whether
// the context ended first.
func (b *holder) await(ctx context.Context) error {
	select {
	case <-b.decided:
		return nil
	default:
	}
	t := b.l.getTimer(b.l.set.nodeTimeout)
	defer b.l.putTimer(t)
	select {
	case <-b.decided:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
	}
	// A verdict that came at the same time is as good: but a lease must not be
	// handed to a caller who is no longer there.
	return ctx.Err()
}

// getTimer gives a waiting caller a timer that another one may have used.
func (l *Locker) getTimer(d time.Duration) *time.Timer {
	t, ok := l.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	t.Reset(d)
	return t
}

func (l *Locker) putTimer(t *time.Timer) {
	t.Stop()
	l.timers.Put(t)
}

// undo releases a failed attempt on every node that may have set it, also where
// the answer never came. It does not wait.
func (b *holder) undo() {
	for i, v := range b.l.voters {
		b.mu.Lock() // answers may still come
		undoes := b.h.undoes(i)
		b.mu.Unlock()
		if !undoes {
			continue
		}
		v.submit(&call{op: seam.Release, node: int32(i), t: &b.h.tenure, undo: true}, quick(b.l.set.clock), false)
	}
}

// verdict makes the error of a round that did not win, or won and came to nothing.
func (b *holder) verdict(v verdict, late error) error {
	h := &b.h
	if v == undecided {
		return nil
	}
	if v == badConfig {
		return b.l.configVerdict(h)
	}
	g, hd, f, p := h.round.tally()
	e := &QuorumError{
		Name: h.name, N: len(h.nodes), Need: h.round.need,
		Granted: g, Held: hd, Failed: f, Pending: p,
		Nodes: h.nodeErrors("acquire", b.l.names), late: late != nil,
	}
	if late != nil {
		e.Nodes = appendNode(e.Nodes, "all nodes", "acquire", late)
	}
	if v == noQuorum {
		e.RetryAfter = h.round.retryAfter(h.lefts)
	}
	return e
}
