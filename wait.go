package redlock

import (
	"context"
	"errors"
	"time"
)

// Acquire locks name: it waits until it has it, ctx ends, or WithWait is up,
// through held, no quorum and quarantine alike (promise P3). ctx bounds the
// call, not the lease, which lives until Release, loss, max hold or Close
// (promise P4); its values are in the lease's Context.
//
// Errors: a *[QuorumError] (Is ErrHeld or ErrNoQuorum) when WithWait was up;
// joined with ctx.Err() when ctx ended; Is [ErrConfig] at once for bad
// arguments and deployments; [ErrClosed].
func (l *Locker) Acquire(ctx context.Context, name string, opts ...LockOption) (*Lease, error) {
	w := &waiting{l: l, name: name, o: l.set.lock}
	if err := w.options(ctx, opts); err != nil {
		return nil, err
	}
	return w.acquire(ctx)
}

// TryAcquire is Acquire in exactly one round: it never waits for a holder.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...LockOption) (*Lease, error) {
	w := &waiting{l: l, name: name, o: l.set.lock}
	if err := w.options(ctx, opts); err != nil {
		return nil, err
	}
	w.o.wait = 0
	return w.acquire(ctx)
}

// options checks the arguments of a call, before any I/O.
func (w *waiting) options(ctx context.Context, opts []LockOption) error {
	if err := w.l.checkName(w.name); err != nil {
		return err
	}
	if len(opts) > 0 {
		for _, opt := range opts {
			if opt == nil {
				return &ConfigError{"option", "nil", "leave it out"}
			}
			opt.applyLock(&w.o)
		}
		if err := w.o.check(&w.l.set); err != nil {
			return err
		}
	}
	if _, under := FromContext(ctx); !under {
		return nil
	}
	if held, _ := ctx.Value(heldKey{w.l, w.name}).(*Lease); held != nil && held.Err() == nil {
		return &ConfigError{"name", `"` + w.name + `"`, "is held by the lease in this context, so acquiring it would wait for itself; " +
			"use that lease (FromContext), or a context without it"}
	}
	return nil
}

// acquire runs rounds until one wins.
func (w *waiting) acquire(ctx context.Context) (*Lease, error) {
	l := w.l
	if l.isClosed() {
		return nil, ErrClosed
	}
	if l.set.hooks == nil {
		return w.run(ctx)
	}
	started := l.tellAcquire(ctx, w.name)
	start := quick(l.set.clock).mono
	lease, err := w.run(ctx)
	l.tellAcquired(started, AcquireEvent{
		Name: w.name, Attempts: w.attempts, Waited: quick(l.set.clock).mono - start, Err: err,
	})
	return lease, err
}

// waiting is one call's way to the lock.
type waiting struct {
	l        *Locker
	name     string
	o        lockSettings
	attempts int
	verdict  error            // the last round's
	ticket   *ticket          // the place in the local line; nil for one round
	limit    <-chan time.Time // the end of WithWait; nil for Forever
	until    time.Time        // …the same as a time; zero for Forever
}

func (w *waiting) run(ctx context.Context) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, w.gaveUp(ctx) // before anything is sent
	}
	if w.o.wait == 0 {
		return w.try(ctx)
	}
	if w.o.wait != Forever {
		t := time.NewTimer(w.o.wait)
		defer t.Stop()
		w.limit, w.until = t.C, time.Now().Add(w.o.wait)
	}
	var first bool
	w.ticket, first = w.l.lines.enter(w.name)
	defer w.l.lines.exit(w.name, w.ticket)
	if !first {
		if over, err := w.queue(ctx); over {
			return nil, err
		}
	}
	for {
		lease, err := w.try(ctx)
		if err == nil || w.final(err) {
			return lease, err
		}
		w.l.lines.judged(w.name, w.verdict)
		over, err := w.pause(ctx)
		if over {
			return nil, err
		}
	}
}

// final says that waiting does not mend an error.
func (w *waiting) final(err error) bool {
	_, ended := errors.AsType[*waitError](err)
	return ended || errors.Is(err, ErrClosed) ||
		errors.Is(err, ErrConfig) && !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrHeld)
}

// try is one round.
func (w *waiting) try(ctx context.Context) (*Lease, error) {
	l := w.l
	if l.isClosed() {
		return nil, ErrClosed
	}
	if nodes := l.ward.foreignNodes(); len(nodes) > 0 {
		l.recheck(ctx, nodes)
	}
	if !l.ward.wanted.Load() {
		l.ward.wanted.Store(true)
	}
	w.attempts++
	b := l.newHolder(w.name, &w.o)
	err := b.acquire(ctx)
	if err == nil {
		b.watch()
		if l.isClosed() {
			b.mu.Lock()
			b.lose(LostClosed) // Close came between; unlocks
		}
		return newLease(ctx, b), nil
	}
	if ended, ok := errors.AsType[*waitError](err); ok {
		if ended.verdict == nil {
			ended.verdict = w.verdict
		}
		return nil, err
	}
	if q, ok := errors.AsType[*QuorumError](err); ok {
		if q.held() {
			w.probe(ctx, b, q)
		}
		if errors.Is(err, ErrQuarantined) {
			l.log.warn("quarantine", "redlock: no quorum while nodes are in quarantine; new nodes need redlock init",
				"name", w.name, "for", q.RetryAfter)
		}
	}
	if l.isClosed() {
		return nil, ErrClosed
	}
	w.verdict = err
	return nil, err
}

// probe finds out what stands in the way, unless the wait is over by then.
func (w *waiting) probe(ctx context.Context, b *holder, q *QuorumError) {
	until := time.Now().Add(w.l.set.nodeTimeout)
	if !w.until.IsZero() && w.until.Before(until) {
		until = w.until
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if ctx.Err() == nil && w.l.probe(ctx, b, q) {
		if q.Nodes != nil && w.o.wait > 0 {
			w.l.log.warn(w.name, "redlock: something that is no lease stands in the way", "name", w.name, "error", q.Nodes)
		}
		return
	}
	// No time to look again; what the last look found most likely still stands.
	if last, ok := errors.AsType[*QuorumError](w.verdict); ok && q.Nodes == nil && last.held() {
		q.Nodes = last.Nodes
	}
}

// queue waits for the turn in the local line.
func (w *waiting) queue(ctx context.Context) (over bool, err error) {
	select {
	case <-w.ticket.turn:
		return false, nil
	case <-ctx.Done():
		w.verdict = w.l.lines.verdict(w.name)
		return true, w.gaveUp(ctx)
	case <-w.l.closed:
		return true, ErrClosed
	case <-w.limit:
	}
	if w.verdict = w.l.lines.verdict(w.name); w.verdict != nil {
		return true, w.verdict
	}
	_, err = w.try(ctx) // nobody in the line has heard a verdict yet
	return true, err
}

// pause waits before the next round: for the back-off, but not past the moment
// from which the name may be free, and until a lease of this process on it ends.
func (w *waiting) pause(ctx context.Context) (over bool, err error) {
	d := max(w.o.backoff(w.attempts), 0)
	if q, ok := errors.AsType[*QuorumError](w.verdict); ok && q.RetryAfter > 0 {
		d = min(d, q.RetryAfter+time.Millisecond)
	}
	t := w.l.getTimer(d)
	defer w.l.putTimer(t)
	select {
	case <-t.C:
		return false, nil
	case <-w.l.lines.wait(w.ticket):
		return false, nil
	case <-ctx.Done():
		return true, w.gaveUp(ctx)
	case <-w.l.closed:
		return true, ErrClosed
	case <-w.limit:
		return true, w.verdict
	}
}

// gaveUp is the error of a wait that ctx ended.
func (w *waiting) gaveUp(ctx context.Context) error {
	return &waitError{ctx: ctx.Err(), cause: context.Cause(ctx), verdict: w.verdict}
}
