package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// quietFor is the least time between two warnings about the same node.
const quietFor = 10 * time.Second

// logger warns at most once per subject and ten seconds.
type logger struct {
	out   *slog.Logger
	clock Clock
	mu    sync.Mutex
	last  map[string]time.Time // one entry per node, and a few more
}

func newLogger(out *slog.Logger, c Clock) *logger {
	return &logger{out: out, clock: c, last: make(map[string]time.Time)}
}

func (g *logger) warn(subject, text string, args ...any) {
	now := g.clock.Now()
	g.mu.Lock()
	last, ok := g.last[subject]
	quiet := ok && now.Sub(last) < quietFor
	if !quiet {
		g.last[subject] = now
	}
	g.mu.Unlock()
	if !quiet {
		g.out.Warn(text, args...)
	}
}

// dispatcher calls the hooks that must not hold up a lane or the scheduler.
type dispatcher struct {
	hooks *Hooks
	log   *logger

	mu      sync.Mutex
	queue   chan func()
	dropped int
	closed  bool
	wg      sync.WaitGroup
}

// maxEvents bounds the events that wait for a slow hook; beyond it they are
// dropped and counted.
const maxEvents = 1024

func newDispatcher(h *Hooks, log *logger) *dispatcher {
	return &dispatcher{hooks: h, log: log}
}

// post queues an event. make1 gets how many were dropped before it.
func (d *dispatcher) post(make1 func(dropped int) func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.queue == nil {
		d.queue = make(chan func(), maxEvents)
		d.wg.Go(d.work)
	}
	select {
	case d.queue <- make1(d.dropped):
		d.dropped = 0
	default:
		d.dropped++
	}
}

func (d *dispatcher) work() {
	for f := range d.queue {
		d.guard(f)
	}
}

// guard keeps a panic in a hook from ending the process.
func (d *dispatcher) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.log.warn("hooks", "redlock: a hook panicked", "panic", fmt.Sprint(p))
		}
	}()
	f()
}

// close ends the goroutine after the events that wait. A hook that blocks
// forever is given up after a second.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	if d.queue != nil {
		close(d.queue)
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(done)
	}()
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		d.log.warn("hooks", "redlock: a hook still runs a second after Close; its goroutine is left to it")
	}
}

func (d *dispatcher) nodeUp(e NodeEvent) {
	if d.hooks != nil && d.hooks.NodeUp != nil {
		d.post(func(int) func() { return func() { d.hooks.NodeUp(e) } })
	}
}

func (d *dispatcher) nodeDown(e NodeEvent) {
	if d.hooks != nil && d.hooks.NodeDown != nil {
		d.post(func(int) func() { return func() { d.hooks.NodeDown(e) } })
	}
}

func (l *Locker) tellRenewed(e RenewEvent) {
	d := l.events
	if d.hooks == nil || d.hooks.Renewed == nil {
		return
	}
	d.post(func(dropped int) func() {
		e.Dropped = dropped
		return func() { d.hooks.Renewed(e) }
	})
}

func (l *Locker) tellLost(e LostEvent) {
	d := l.events
	if d.hooks == nil || d.hooks.Lost == nil {
		return
	}
	d.post(func(dropped int) func() {
		e.Dropped = dropped
		return func() { d.hooks.Lost(e) }
	})
}

func (l *Locker) tellReleased(ctx context.Context, e ReleaseEvent) {
	if h := l.set.hooks; h != nil && h.Released != nil {
		l.events.guard(func() { h.Released(ctx, e) })
	}
}

// tellAcquire calls AcquireStart and returns the context for AcquireDone.
func (l *Locker) tellAcquire(ctx context.Context, name string) context.Context {
	h := l.set.hooks
	if h == nil || h.AcquireStart == nil {
		return ctx
	}
	var started context.Context
	l.events.guard(func() { started = h.AcquireStart(ctx, name) }) //nolint:fatcontext // it runs once, now
	if started == nil {
		return ctx
	}
	return started
}

func (l *Locker) tellAcquired(ctx context.Context, e AcquireEvent) {
	if h := l.set.hooks; h != nil && h.AcquireDone != nil {
		l.events.guard(func() { h.AcquireDone(ctx, e) })
	}
}
