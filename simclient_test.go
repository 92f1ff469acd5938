package redlock

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// simClient is one process with a Locker's machines, which wants one name for
// ever: acquires, holds, releases, and starts again.
type simClient struct {
	s       *sim
	id      int
	ward    *ward
	nodes   []*node
	session []*memnode.Session // of the only lane to each node; nil without
	flying  []bool             // a dial or a batch of that lane is out
	wake    []time.Duration    // when that lane is looked at again without a call
	h       *hold
	tokens  int
}

// pump does what the lanes want, and looks whether the lease still stands.
func (c *simClient) pump() {
	for i, n := range c.nodes {
		for !c.flying[i] && c.step(i, n.lanes[0]) {
		}
		if n.askedLast {
			n.askedLast = false // the others are pumped anyway
		}
		n.notes = nil
	}
}

// step runs one want of a lane; false when there is none.
func (c *simClient) step(i int, l *lane) bool {
	w, cancelled := l.next(c.s.moment(), nil)
	for _, k := range cancelled {
		c.answer(k, &answer{vote: voteFailed, err: errCancelled, code: seam.None})
	}
	switch w {
	case wantDial:
		c.flying[i] = true
		c.s.after(c.s.delay(), func() { c.dialled(i, l) })
	case wantSend:
		c.flying[i] = true
		c.send(i, l)
	case wantHangUp:
		c.session[i] = nil
		return true
	case wantNothing:
		if at, ok := l.wakeAt(); ok && at != c.wake[i] {
			c.wake[i] = at
			c.s.after(max(at-c.s.now, 0), func() {})
		}
	}
	return false
}

func (c *simClient) dialled(i int, l *lane) {
	c.flying[i] = false
	session := c.s.nodes[i].NewSession()
	var err error
	if e := c.s.nodes[i].Exec(session, []seam.Call{{Op: seam.Probe}}, make([]seam.Reply, 1)); e != nil {
		err = errors.New("connection refused")
	}
	c.session[i] = session
	failed := l.dialled(err, c.s.moment())
	for _, k := range failed {
		c.answer(k, &answer{vote: voteFailed, err: err})
	}
}

// send carries a batch to the node and its replies back; either may be late or
// lost, and then the lane's timeout ends the wait.
func (c *simClient) send(i int, l *lane) {
	s, session := c.s, c.session[i]
	calls := append([]seam.Call(nil), l.calls...)
	replies := make([]seam.Reply, len(calls))
	over := false
	finish := func(err error) {
		if over {
			return
		}
		over = true
		c.flying[i] = false
		if err == nil {
			copy(l.replies, replies)
		} else {
			c.session[i] = nil
		}
		for _, r := range l.replied(err, s.moment(), nil) {
			c.answer(r.c, &r.a)
		}
	}
	s.after(s.delay(), func() {
		err := s.nodes[i].Exec(session, calls, replies)
		s.note("client %d node %d: %d calls, %v", c.id, i, len(calls), err)
		s.after(s.delay(), func() { finish(err) })
	})
	s.after(simTimeout, func() { finish(os.ErrDeadlineExceeded) })
}

// submit hands a call to a lane.
func (c *simClient) submit(i int, k *call) {
	k.node = int32(i)
	if a := c.nodes[i].lanes[0].submit(k, c.s.moment()); a != nil {
		c.answer(k, a)
	}
}

// acquire starts an attempt.
func (c *simClient) acquire() {
	n := len(c.nodes)
	c.tokens++
	h := &hold{drift: Drift{Rate: 0.01, Fixed: 2 * time.Millisecond}, ttl: simTTL, nodes: make([]nodeHold, n), round: newRound(n, nil)}
	h.name, h.key, h.token = "x", "lock:x", fmt.Sprintf("%d-%d", c.id, c.tokens)
	h.lane, h.sent = make([]uint8, n), make([]bool, n)
	h.from = c.s.moment()
	c.h = h
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Acquire, t: &h.tenure, ttl: simTTL})
	}
	c.s.after(simTimeout, func() {
		if c.h == h && h.state == stateAcquiring {
			h.round.expire()
			c.decided()
		}
	})
}

// answer routes an answer to the machine of the token.
func (c *simClient) answer(k *call, a *answer) {
	h := c.h
	if h == nil || k.t != &h.tenure {
		return // of an attempt that is over
	}
	switch k.op {
	case seam.Acquire:
		if h.voted(int(k.node), a) != undecided && h.state == stateAcquiring {
			c.decided()
		}
	case seam.Extend:
		switch h.extended(int(k.node), k.seq, a, c.s.moment()) {
		case roundLost:
			c.lose()
		case roundFailed:
			c.s.after(20*time.Millisecond, func() { c.extend(h) })
		}
	case seam.Release, opRecheck:
		if f := h.released(int(k.node), k.seq, a); f != freeOpen && h.state == stateReleasing {
			c.freed()
		}
	}
}

// decided ends a round.
func (c *simClient) decided() {
	h := c.h
	if h.round.outcome != granted || !h.won(c.s.moment()) {
		h.state = stateFailed
		c.undo(h)
		c.s.after(time.Duration(c.s.rnd.IntN(50))*time.Millisecond, c.acquire)
		return
	}
	c.s.grants++
	c.s.note("client %d holds %s", c.id, h.token)
	for _, o := range c.s.clients {
		if o != c && o.h != nil && o.h.alive(c.s.moment().instant) {
			c.s.broken = fmt.Sprintf("at %v client %d and client %d both hold", c.s.now, c.id, o.id)
		}
	}
	c.s.after(simTTL/3, func() { c.extend(h) })
	c.s.after(time.Duration(c.s.rnd.Int64N(int64(3*simTTL))), func() { c.release(h) })
	c.watch(h)
}

// watch ends a lease whose validity is over.
func (c *simClient) watch(h *hold) {
	if c.h != h || h.state != stateHeld {
		return
	}
	if left := h.valid.left(c.s.moment().instant) - margin(simTTL); left > 0 {
		c.s.after(left, func() { c.watch(h) })
		return
	}
	c.lose()
}

func (c *simClient) lose() {
	h := c.h
	if h.state != stateHeld {
		return
	}
	h.end(LostNoQuorum, c.ward.names)
	c.s.note("client %d lost %s", c.id, h.token)
	c.undo(h)
	c.s.after(time.Millisecond, c.acquire)
}

func (c *simClient) undo(h *hold) {
	h.over.Store(true)
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Release, t: &h.tenure, undo: true})
	}
}

// extend renews a lease that still stands.
func (c *simClient) extend(h *hold) {
	if c.h != h || h.state != stateHeld || h.out {
		return
	}
	seq := h.extendAll(simTTL, c.s.moment())
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Extend, seq: seq, t: &h.tenure, ttl: simTTL})
	}
	c.s.after(simTimeout, func() {
		if h.seq == seq && h.extendExpired() == roundFailed {
			c.extend(h)
		}
	})
	c.s.after(simTTL/3, func() { c.extend(h) })
}

func (c *simClient) release(h *hold) {
	if c.h != h || h.state != stateHeld {
		return
	}
	seq := h.releaseAll()
	c.s.note("client %d releases %s", c.id, h.token)
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Release, seq: seq, t: &h.tenure})
	}
	c.s.after(simTimeout, func() {
		if c.h == h && h.state == stateReleasing {
			c.freed()
		}
	})
}

func (c *simClient) freed() {
	c.h.state = stateReleased
	c.h = nil
	c.s.after(time.Duration(c.s.rnd.IntN(20))*time.Millisecond, c.acquire)
}
