package redlock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is the shell around a node's lanes: it guards the state machine,
// runs what it wants on real connections, and hands out the answers. A lane has
// one goroutine, started with its first call and ended by close.

// wideLink is the round trip from which a node gets more than one lane: below
// it one pipeline at a time is the fastest, above it calls would queue for the
// length of somebody else's trip.
const (
	wideLink = 300 * time.Microsecond
	maxLanes = 8
)

// voter is a node and its lanes, at work.
type voter struct {
	mu     sync.Mutex
	n      *node
	dialer seam.Dialer
	clock  Clock
	lanes  []*runner
	open   atomic.Bool // some lane serves
	needs  atomic.Bool // a bucket that wants a seal
	closed bool

	onNote  func(*voter, note) // a node went down or came back
	onAsked func()             // the last node was asked for its seal
	onNeed  func()             // a bucket wants a seal; nil for a server of its own
	fan     *fan               // a vote of a Cluster: its buckets; nil for a server of its own
	wg      sync.WaitGroup
	done    chan struct{}
}

func newVoter(n *node, d seam.Dialer, clock Clock) *voter {
	v := &voter{n: n, dialer: d, clock: clock, done: make(chan struct{})}
	v.lanes = []*runner{newRunner(v, n.lanes[0])}
	return v
}

// runner runs one lane.
type runner struct {
	v       *voter
	l       *lane
	conn    seam.Conn
	running bool          // somebody is about to ask the lane what it wants, or does it
	started bool          // the goroutine is there
	busy    bool          // the last batch had several calls: more are on their way
	kick    chan struct{} // hands the lane, with running set, to the goroutine
	results []result
}

func newRunner(v *voter, l *lane) *runner {
	return &runner{v: v, l: l, kick: make(chan struct{}, 1)}
}

// quick reads the clocks that a lane needs: where it waits for safety it takes
// the smallest, which the boot clock never is.
func quick(c Clock) moment {
	if s, ok := c.(*systemClock); ok {
		now := time.Now()
		mono := now.Sub(s.origin)
		return moment{instant{mono, mono, time.Duration(now.UnixNano())}, now}
	}
	return read(c)
}

// submit hands a call to its lane. With inline set the caller's own goroutine
// runs the batch when the lane is idle and connected, which saves two switches
// where there is no other node to wait for.
func (v *voter) submit(c *call, now moment, inline bool) {
	if v.fan != nil {
		v.fan.submit(c, now, inline)
		return
	}
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		deliver(c, &answer{vote: voteFailed, err: ErrClosed})
		return
	}
	r := v.pick(c)
	a := r.l.submit(c, now)
	start := !r.running
	if start {
		inline = inline && a == nil && r.l.phase == phaseOpen && !r.busy
		r.occupy()
	}
	v.mu.Unlock()
	if a != nil {
		deliver(c, a)
	}
	switch {
	case !start: // whoever runs the lane sees the call before it stops
	case inline:
		r.run(true)
	default:
		r.hand()
	}
	v.need()
}

// need tells that a bucket wants a seal.
func (v *voter) need() {
	if v.onNeed != nil && v.needs.Load() {
		v.onNeed()
	}
}

// pick chooses the lane of a call. A token keeps, per node, the lane that it
// was first given, so that a release never overtakes its acquire.
func (v *voter) pick(c *call) *runner {
	var kept *uint8
	if c.t != nil {
		kept = &c.t.lane[v.n.index]
		if *kept != 0 {
			return v.lanes[*kept-1]
		}
	}
	best := v.lanes[0]
	if v.n.rtt.least() > wideLink {
		for _, r := range v.lanes[1:] {
			if best.load() == 0 {
				break
			}
			if r.load() < best.load() {
				best = r
			}
		}
		if best.load() > 0 && len(v.lanes) < maxLanes && best.l.phase == phaseOpen {
			l := &lane{n: v.n, id: uint8(len(v.lanes))}
			v.n.lanes = append(v.n.lanes, l)
			best = newRunner(v, l)
			v.lanes = append(v.lanes, best)
		}
	}
	if kept != nil && !v.n.ward.mutant.has(mutantLaneHop) {
		*kept = best.l.id + 1
	}
	return best
}

// load is how busy a lane is.
func (r *runner) load() int {
	n := len(r.l.queue)
	if r.running {
		n++
	}
	return n
}

// occupy marks an idle lane as running, and starts its goroutine with the first
// call. The guard is held.
func (r *runner) occupy() {
	r.running = true
	if !r.started {
		r.started = true
		r.v.wg.Go(r.work)
	}
}

// hand gives the lane, marked as running, to its goroutine. It never blocks:
// there is one token for one running.
func (r *runner) hand() { r.kick <- struct{}{} }

// poke makes the lanes look again at what they want: another node was asked, a
// probe is due at once.
func (v *voter) poke(probe bool) {
	v.mu.Lock()
	var idle []*runner
	for _, r := range v.lanes {
		if probe && (r.l.phase == phaseDown || r.l.phase == phaseCold) {
			r.l.probe = true
		}
		if !r.running && !v.closed && (r.started || probe) {
			r.occupy()
			idle = append(idle, r)
		}
	}
	v.mu.Unlock()
	for _, r := range idle {
		r.hand()
	}
}

// work is the lane's goroutine.
func (r *runner) work() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-r.kick:
		case <-timer.C:
			if !r.take() {
				continue
			}
		case <-r.v.done:
			r.drain()
			return
		}
		wake, ok := r.run(false)
		if !ok {
			wake = time.Hour
		}
		timer.Reset(wake)
	}
}

// take marks an idle lane as running.
func (r *runner) take() bool {
	r.v.mu.Lock()
	defer r.v.mu.Unlock()
	if r.running {
		return false
	}
	r.running = true
	return true
}

// run does what the lane wants until it wants nothing, and says when it may
// want something again. With inline set it stops after one batch and hands the
// rest to the goroutine.
func (r *runner) run(inline bool) (wake time.Duration, ok bool) {
	v, l := r.v, r.l
	for sent := false; ; {
		if r.busy {
			// Those whom the last batch answered are about to ask again. Letting
			// them go first makes one full pipeline of what were two.
			runtime.Gosched()
		}
		v.mu.Lock()
		now := quick(v.clock)
		if inline && sent {
			if len(l.queue) > 0 || l.phase != phaseOpen || l.hangUp {
				v.mu.Unlock()
				r.hand()
				return 0, false
			}
		}
		w, dropped := l.next(now, nil)
		if w == wantNothing {
			r.running = false
			closed := v.closed
			at, later := l.wakeAt()
			v.mu.Unlock()
			v.cancelled(dropped)
			if closed {
				r.hand() // drain may be waiting for the lane
			}
			return max(at-now.mono, 0), later
		}
		v.mu.Unlock()
		v.cancelled(dropped)
		switch w {
		case wantDial:
			r.dial()
		case wantSend:
			r.send()
			sent = true
		case wantHangUp:
			r.hangUp()
		}
	}
}

// dial connects the lane.
func (r *runner) dial() {
	v := r.v
	conn, err := v.dialer.Dial(v.n.timeout)
	v.mu.Lock()
	r.conn = conn
	failed := r.l.dialled(err, quick(v.clock))
	a := answer{vote: v.n.failVote(r.l.failure), err: r.l.failure}
	notes, asked := v.takeNotes()
	v.mu.Unlock()
	for _, c := range failed {
		deliver(c, &a)
	}
	v.tell(notes, asked)
}

// send runs the lane's batch.
func (r *runner) send() {
	v, l := r.v, r.l
	r.busy = len(l.out) > 1
	err := r.conn.Do(l.calls, l.replies)
	if err != nil {
		r.hangUp()
	}
	v.mu.Lock()
	r.results = l.replied(err, quick(v.clock), r.results[:0])
	notes, asked := v.takeNotes()
	v.mu.Unlock()
	for i := range r.results {
		deliver(r.results[i].c, &r.results[i].a)
	}
	clear(r.results)
	v.tell(notes, asked)
}

// hangUp ends the connection.
func (r *runner) hangUp() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// cancelled answers the calls that needed no sending any more.
func (v *voter) cancelled(calls []*call) {
	for _, c := range calls {
		a := answer{vote: voteFailed, err: errCancelled}
		switch c.op {
		case seam.Release:
			a = answer{code: seam.Gone}
		case seam.Acquire:
			v.mu.Lock()
			if q := v.n.abstains(quick(v.clock)); q != nil {
				a = *q
			}
			v.mu.Unlock()
		}
		deliver(c, &a)
	}
}

// deliver hands an answer to whoever wants it.
func deliver(c *call, a *answer) {
	if c.sink != nil {
		c.sink.answered(c, a)
	}
}

// takeNotes collects, under the guard, what the shell has to tell.
func (v *voter) takeNotes() (notes []note, asked bool) {
	v.open.Store(v.n.open > 0)
	notes, v.n.notes = v.n.notes, nil
	asked, v.n.askedLast = v.n.askedLast, false
	v.needs.Store(v.n.needSeal)
	return notes, asked
}

func (v *voter) tell(notes []note, asked bool) {
	for _, n := range notes {
		v.onNote(v, n)
	}
	if asked {
		v.onAsked()
	}
	v.need()
}
