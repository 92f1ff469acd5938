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
	if w.outer = w.outerIn(ctx); w.outer != nil && !w.o.reentry {
		return &ConfigError{"name", `"` + w.name + `"`, "is held by the lease in this context, so acquiring it would wait for itself; " +
			"allow it (WithReentry), use that lease (FromContext), or a context without it"}
	}
	return nil
}

// acquire runs rounds until one wins.
func (w *waiting) acquire(ctx context.Context) (*Lease, error) {
	l := w.l
	if l.isClosed() {
		return nil, ErrClosed
	}
	if w.outer != nil && ctx.Err() == nil {
		if lease, err := w.nest(ctx); lease != nil || err != nil {
			return lease, err
		}
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
	outer    *Lease   // what the context carries of this name
	all      []string // of AcquireAll; nil for one name
	attempts int
	verdict  error            // the last round's
	firm     bool             // …and one holder had the name
	ticket   *ticket          // the place in the local line; nil for one round
	limit    <-chan time.Time // the end of WithWait; nil for Forever
	until    time.Time        // …the same as a time; zero for Forever
}

func (w *waiting) run(ctx context.Context) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, w.gaveUp(ctx) // before anything is sent
	}
	if w.o.wait == 0 {
		return w.try(ctx, -1)
	}
	if w.o.wait != Forever {
		t := time.NewTimer(w.o.wait)
		defer t.Stop()
		w.limit, w.until = t.C, time.Now().Add(w.o.wait)
	}
	w.ticket = w.l.lines.enter(w.name, &w.o)
	defer w.leave()
	lease, err := w.inLine(ctx)
	if errors.Is(err, errUnheard) {
		return w.try(ctx, -1)
	}
	return lease, err
}

// inLine does what the line's vigil wants, until the wait is over.
func (w *waiting) inLine(ctx context.Context) (*Lease, error) {
	for {
		m, heir := w.l.lines.step(w.name, w.ticket, w.attempts)
		switch {
		case heir != nil:
			if lease := w.take(ctx, heir); lease != nil {
				return lease, nil
			}
		case m.kind == moveRest:
			if over, err := w.rest(ctx, m.wait); over {
				return nil, err
			}
			continue
		case m.kind == moveEnlist:
			w.enlist(ctx, m.node)
		default:
			lease, err := w.try(ctx, m.node)
			if err == nil || w.final(err) {
				return lease, err
			}
			w.lost(err)
		}
		if over, err := w.ended(ctx); over {
			return nil, err
		}
	}
}

// leave gives the place in the line up. Who leaves at the very moment at which it
// was handed the lease hands it on.
func (w *waiting) leave() {
	if heir := w.l.lines.exit(w.name, w.ticket); heir != nil {
		w.l.decline(heir)
	}
}

// lost tells the line of a round that did not win.
func (w *waiting) lost(err error) {
	verdict := w.verdict
	if errors.Is(err, errGated) {
		verdict = nil
	}
	pass := w.l.lines.lost(w.name, w.ticket, w.attempts, verdict, w.firm)
	w.l.sendPassOn(w.name, pass)
}

// errGated is a round that ended at the one node that it asked first, without a
// verdict. No caller sees it.
var errGated = errors.New("redlock: the designated node refused")

// ended says whether the wait is over.
func (w *waiting) ended(ctx context.Context) (over bool, err error) {
	switch {
	case ctx.Err() != nil:
		return true, w.gaveUp(ctx)
	case w.l.isClosed():
		return true, ErrClosed
	case !w.until.IsZero() && !time.Now().Before(w.until):
		return true, w.timedOut()
	}
	return false, nil
}

// final says that waiting does not mend an error.
func (w *waiting) final(err error) bool {
	_, ended := errors.AsType[*waitError](err)
	return ended || errors.Is(err, ErrClosed) ||
		errors.Is(err, ErrConfig) && !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrHeld)
}

// try is one round, behind a gate or not.
func (w *waiting) try(ctx context.Context, gate int) (*Lease, error) {
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
	if w.all != nil {
		b.h.join(l.set.prefix, w.all)
	}
	err := b.acquire(ctx, gate)
	if err == nil {
		if err = b.late(); err == nil && w.all == nil {
			l.lines.won(b)
		}
	}
	if err == nil {
		b.watch()
		if l.isClosed() {
			b.mu.Lock()
			b.lose(LostClosed) // Close came between; unlocks
		}
		return newLease(ctx, b), nil
	}
	if errors.Is(err, errGated) {
		return nil, err
	}
	if ended, ok := errors.AsType[*waitError](err); ok {
		if ended.verdict == nil {
			ended.verdict = w.verdict
		}
		return nil, err
	}
	w.firm = false
	if q, ok := asQuorum(err); ok {
		if q.held() && w.all == nil {
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
	if firm, ok := w.l.probe(ctx, b, q); ok {
		w.firm = firm
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

// rest waits for something to happen, and at most for d; below zero it has no end.
func (w *waiting) rest(ctx context.Context, d time.Duration) (over bool, err error) {
	var expired <-chan time.Time
	if d >= 0 {
		t := w.l.getTimer(d)
		defer w.l.putTimer(t)
		expired = t.C
	}
	select {
	case <-w.ticket.sig:
		return false, nil
	case <-expired:
		w.l.lines.with(w.name, func(li *line) { li.vigil.slept() })
		return false, nil
	case <-ctx.Done():
		return true, w.gaveUp(ctx)
	case <-w.l.closed:
		return true, ErrClosed
	case <-w.limit:
		return true, w.timedOut()
	}
}

// timedOut is the last verdict, at the end of WithWait; that of whoever contends
// for the process, where this call never did.
func (w *waiting) timedOut() error {
	if w.verdict == nil {
		w.verdict = w.l.lines.verdict(w.name)
	}
	if w.verdict == nil {
		return errUnheard
	}
	return w.verdict
}

// errUnheard is the end of a wait in which nobody in the line has heard a verdict:
// one round gives it. No caller sees it.
var errUnheard = errors.New("redlock: no verdict yet")

// gaveUp is the error of a wait that ctx ended.
func (w *waiting) gaveUp(ctx context.Context) error {
	if w.verdict == nil && w.ticket != nil {
		w.verdict = w.l.lines.verdict(w.name)
	}
	return &waitError{ctx: ctx.Err(), cause: context.Cause(ctx), verdict: w.verdict}
}

func asQuorum(err error) (*QuorumError, bool) { return errors.AsType[*QuorumError](err) }
