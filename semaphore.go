package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// maxPermits bounds n of [NewSemaphore]: whoever finds all permits taken has
// asked for each of them once.
const maxPermits = 128

// Semaphore lets at most n leases of one name be held at a time. It is made of
// n names, name#0 to name#(n-1), each locked like any other, so it promises what
// the lock does. (A counter on each node would not: see docs/decisions.md.)
//
// Every client of a semaphore gives the same n; while some give less and some
// more, the largest is what holds. It is made once per process and is safe for
// concurrent use.
type Semaphore struct {
	l     *Locker
	name  string
	n     int
	err   error         // a bad argument, reported by every call
	turns chan struct{} // one for each caller of this process that may contend
}

// NewSemaphore makes a semaphore of n permits, from 1 to 128, over l. The name
// is that of a lock, at most 508 bytes. It does no I/O; a bad argument is
// reported by every call on it, as a *[ConfigError].
func NewSemaphore(l *Locker, name string, n int) *Semaphore {
	s := &Semaphore{l: l, name: name, n: n}
	switch {
	case n < 1 || n > maxPermits:
		s.err = &ConfigError{"semaphore", fmt.Sprintf("%.40q of %d", name, n), fmt.Sprintf("must have from 1 to %d permits", maxPermits)}
		return s
	case name == "":
		s.err = l.checkName(name)
		return s
	}
	s.err = l.checkName(s.permit(n - 1))
	s.turns = make(chan struct{}, min(n, contenders))
	return s
}

// permit is the name of one of the permits.
func (s *Semaphore) permit(i int) string { return s.name + "#" + strconv.Itoa(i) }

// Acquire takes a permit: it waits until it has one, ctx ends, or WithWait is
// up. The lease is like any other; its name is the permit's. Up to 8 callers of
// a process contend, the others line up behind them; between processes there is
// no order. Under a context that carries a permit of this semaphore it takes
// another one, or, with [WithReentry], a nested lease of that one. [WithWait],
// hooks and errors are as with [Locker.Acquire]; it is ErrHeld when all permits
// are taken, and hooks are told of each permit that was asked for.
func (s *Semaphore) Acquire(ctx context.Context, opts ...LockOption) (*Lease, error) {
	c, err := s.call(opts)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx)
}

// TryAcquire asks for each permit once, one after the other from a random one
// on, until it has one. It never waits for a holder.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Lease, error) {
	c, err := s.call(opts)
	if err != nil {
		return nil, err
	}
	c.o.wait = 0
	return c.acquire(ctx)
}

// Do runs fn while it holds a permit, as [Locker.Do] does with a name.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...LockOption) error {
	lease, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// permitCall is one call's way to a permit.
type permitCall struct {
	s       *Semaphore
	o       lockSettings
	verdict error // of the last sweep
}

// call checks the arguments of a call, before any I/O.
func (s *Semaphore) call(opts []LockOption) (*permitCall, error) {
	if s.err != nil {
		return nil, s.err
	}
	c := &permitCall{s: s, o: s.l.set.lock}
	for _, opt := range opts {
		if opt == nil {
			return nil, &ConfigError{"option", "nil", "leave it out"}
		}
		opt.applyLock(&c.o)
	}
	return c, c.o.check(&s.l.set)
}

// acquire sweeps over the permits, and waits for some of them between sweeps.
func (c *permitCall) acquire(ctx context.Context) (*Lease, error) {
	if w := c.carried(ctx); w != nil {
		return w.acquire(ctx)
	}
	if c.o.wait == 0 {
		return c.sweep(ctx)
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if c.o.wait != Forever {
		bounded, cancel = context.WithTimeoutCause(ctx, c.o.wait, errWaitIsUp)
	}
	defer cancel()
	select {
	case c.s.turns <- struct{}{}:
		defer func() { <-c.s.turns }()
	case <-bounded.Done():
		return c.late(ctx)
	case <-c.s.l.closed:
		return nil, ErrClosed
	}
	for {
		lease, err := c.sweep(ctx)
		if err == nil || c.final(err) {
			return lease, err
		}
		if bounded.Err() != nil {
			return c.late(ctx)
		}
		if lease := c.rest(bounded); lease != nil {
			return lease, nil
		}
		if bounded.Err() != nil {
			return c.late(ctx)
		}
	}
}

// errWaitIsUp tells the end of WithWait from that of the caller's context.
var errWaitIsUp = fmt.Errorf("redlock: WithWait is up: %w", context.DeadlineExceeded)

// late is the error of a wait that is over. Who never had a turn asks once, as a
// verdict is what the caller is owed.
func (c *permitCall) late(ctx context.Context) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, &waitError{ctx: err, cause: context.Cause(ctx), verdict: c.verdict}
	}
	if c.verdict == nil {
		return c.sweep(ctx)
	}
	return nil, c.verdict
}

// waiting is a call for one of the permits.
func (c *permitCall) waiting(i int, wait time.Duration) *waiting {
	w := &waiting{l: c.s.l, name: c.s.permit(i), o: c.o}
	w.o.wait = wait
	return w
}

// final says that waiting does not mend an error.
func (c *permitCall) final(err error) bool { return (&waiting{}).final(err) }

// carried is the call for a nested lease of the permit that the context carries,
// nil for none or where no reentry is wanted.
func (c *permitCall) carried(ctx context.Context) *waiting {
	if _, under := FromContext(ctx); !under || !c.o.reentry {
		return nil
	}
	for i := range c.s.n {
		w := c.waiting(i, c.o.wait)
		if w.outer = w.outerIn(ctx); w.outer != nil {
			return w
		}
	}
	return nil
}

// sweep asks for each permit once, from a random one on. Those that the context
// carries are left out: they are not free as long as it lasts.
func (c *permitCall) sweep(ctx context.Context) (*Lease, error) {
	var verdict, trouble error
	for i, first := 0, rand.IntN(c.s.n); i < c.s.n; i++ {
		w := c.waiting((first+i)%c.s.n, 0)
		if w.outerIn(ctx) != nil {
			continue
		}
		lease, err := w.acquire(ctx)
		if err == nil || c.final(err) {
			return lease, err
		}
		q, ok := asQuorum(err)
		switch {
		case !ok:
			trouble = err
		case q.held():
			verdict = c.all(q)
		default: // too few nodes: asking for the next permit finds the same ones
			c.verdict = c.all(q)
			return nil, c.verdict
		}
	}
	switch {
	case trouble != nil:
		verdict = trouble
	case verdict == nil:
		return nil, &ConfigError{
			What: "semaphore", Value: fmt.Sprintf("%q of %d", c.s.name, c.s.n),
			Rule: "all of its permits are held by the context, so acquiring one would wait for itself; " +
				"allow it (WithReentry), raise n, or use a context without them",
		}
	}
	c.verdict = verdict
	return nil, verdict
}

// all makes of the verdict on one permit that on the semaphore.
func (c *permitCall) all(q *QuorumError) *QuorumError {
	of := *q
	of.Name = c.s.name
	return &of
}

const (
	// contenders is how many callers of a process ask for permits at the same time.
	contenders = 8
	// permitsWatched is for how many permits one of them waits at the same time.
	permitsWatched = 16
	// permitsAgain is after how long it asks for all of them again, on average, if
	// they are more than that.
	permitsAgain = time.Second
)

// rest waits in the lines of the permits, of some and for a while where they are
// many, and takes the first one that comes. Nil: none did.
func (c *permitCall) rest(ctx context.Context) *Lease {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.s.n > permitsWatched {
		t := time.AfterFunc(permitsAgain/2+rand.N(permitsAgain), cancel)
		defer t.Stop()
	}
	won := make(chan *Lease, permitsWatched)
	watched := 0
	for _, i := range rand.Perm(c.s.n) {
		w := c.waiting(i, Forever)
		if watched == permitsWatched || w.outerIn(ctx) != nil {
			continue
		}
		watched++
		go func() {
			lease, _ := w.acquire(ctx) // an error that waiting does not mend is met again by the sweep
			won <- lease
		}()
	}
	var lease *Lease
	for range watched {
		switch got := <-won; {
		case got == nil:
		case lease == nil:
			lease = got
			cancel() // the others give up
		default: // two came at the same moment
			_ = got.Release(ctx)
		}
	}
	return lease
}
