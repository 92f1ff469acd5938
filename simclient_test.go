package redlock

import (
	"errors"
	"os"
	"time"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// The phases of a client that a fault can meet.
var simPhases = []string{"idle", "acquiring", "held", "renewing", "releasing", "waiting"}

// simClient is one process with a Locker's machines, which wants one name for
// ever: acquires, holds, releases, and starts again.
type simClient struct {
	g       *game
	id      int
	ward    *ward
	mutant  mutant
	nodes   []*node
	session []*memnode.Session // of the only lane to each node; nil without
	flying  []bool             // a dial or a batch of that lane is out
	wake    []time.Duration    // when that lane is looked at again without a call
	h       *hold
	tokens  int

	// Waiting: see simwait_test.go.
	vigil   vigil
	line    []int // the callers that wait, first come first served
	idle    int   // the callers that do something else
	busy    bool  // a try or a registration of the first is out
	try     *hold // …the try
	gate    int   // …the node that it asked first, -1 for none
	rests   int   // how often it rested: a timer of an earlier rest is void
	rounds  int
	ears    []*memnode.Session
	holding bool   // a caller has the lease; not while it is handed over
	kept    func() // once the extend round that is out was won

	fenced bool
	rate   float64 // of its clock
	offset time.Duration
}

func newSimClient(g *game, names []string, m mutant) *simClient {
	n := len(names)
	c := &simClient{
		g: g, id: len(g.clients), mutant: m, ward: newWard(names, modeStrict, defaultPrefix, simTTL),
		rate: g.Rate(), offset: time.Duration(g.Rand.IntN(1000)) * time.Millisecond,
		session: make([]*memnode.Session, n), flying: make([]bool, n), wake: make([]time.Duration, n),
	}
	c.ears, c.vigil, c.gate = make([]*memnode.Session, n), newVigil(m), -1
	c.idle = 1 + g.Rand.IntN(3)
	c.ward.mutant = m
	c.ward.wanted.Store(true)
	for k := range n {
		c.nodes = append(c.nodes, newNode(k, names[k], 0, c.ward, simTimeout))
	}
	g.Add(c)
	return c
}

// moment reads the client's clock.
func (c *simClient) moment() moment {
	mono := time.Duration(float64(c.g.Now()) * c.rate)
	at := time.Unix(1_700_000_000, 0).Add(mono + c.offset)
	return moment{instant{mono, mono, time.Duration(at.UnixNano())}, at}
}

// after puts an event of this client into the queue, d by its own clock.
func (c *simClient) after(d time.Duration, do func()) {
	c.g.For(c.id, time.Duration(float64(d)/c.rate)+1, do)
}

// Phase is what the client does.
func (c *simClient) Phase() string {
	h := c.h
	switch {
	case h == nil && c.try == nil && len(c.line) > 0:
		return simPhases[5]
	case c.try != nil:
		return simPhases[1]
	case h == nil || h.state == stateReleased || h.state == stateFailed || h.state == stateLost:
		return simPhases[0]
	case h.state == stateAcquiring:
		return simPhases[1]
	case h.state == stateHeld && h.out:
		return simPhases[3]
	case h.state == stateHeld:
		return simPhases[2]
	}
	return simPhases[4]
}

// Pump does what the lanes want.
func (c *simClient) Pump() {
	c.listenOn()
	for i, n := range c.nodes {
		for !c.flying[i] && c.step(i, n.lanes[0]) {
		}
		n.askedLast = false // the others are pumped anyway
		n.notes = nil
	}
}

// step runs one want of a lane; false when there is none.
func (c *simClient) step(i int, l *lane) bool {
	w, cancelled := l.next(c.moment(), nil)
	for _, k := range cancelled {
		c.answer(k, &answer{vote: voteFailed, err: errCancelled, code: seam.None})
	}
	switch w {
	case wantDial:
		c.flying[i] = true
		c.after(c.g.Delay(), func() { c.dialled(i, l) })
	case wantSend:
		c.flying[i] = true
		c.send(i, l)
	case wantHangUp:
		c.session[i] = nil
		return true
	case wantNothing:
		if at, ok := l.wakeAt(); ok && at != c.wake[i] {
			c.wake[i] = at
			c.after(at-c.moment().mono, func() {})
		}
	}
	return false
}

func (c *simClient) dialled(i int, l *lane) {
	c.flying[i] = false
	session := c.g.Nodes[i].NewSession()
	var err error
	if e := c.g.Nodes[i].Exec(session, []seam.Call{{Op: seam.Probe}}, make([]seam.Reply, 1)); e != nil {
		err = errors.New("connection refused")
	}
	c.session[i] = session
	failed := l.dialled(err, c.moment())
	for _, k := range failed {
		c.answer(k, &answer{vote: voteFailed, err: err})
	}
}

// send carries a batch to the node; a batch that is not answered in time ends
// its connection, and may still be executed later.
func (c *simClient) send(i int, l *lane) {
	for _, k := range l.out {
		if k.t != nil && k.t.over.Load() && (k.op == seam.Acquire || k.op == seam.Extend) {
			c.g.Violated("client %d sends %v for %s, which is over", c.id, k.op, k.t.token)
		}
	}
	over := false
	finish := func(replies []seam.Reply, err error) {
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
		for _, r := range l.replied(err, c.moment(), nil) {
			c.answer(r.c, &r.a)
		}
	}
	calls := append([]seam.Call(nil), l.calls...)
	c.g.Send(i, c.session[i], calls, func(replies []seam.Reply, err error) {
		c.g.For(c.id, 0, func() { finish(replies, err) })
	})
	c.after(simTimeout, func() { finish(nil, os.ErrDeadlineExceeded) })
}

// owesNothing says that the client's lane to a node is open and idle, and that
// nothing of it is left behind that it knows of.
func (c *simClient) owesNothing(i int) bool {
	l := c.nodes[i].lanes[0]
	return l.phase == phaseOpen && !c.flying[i] && !l.hangUp && len(l.queue)+len(l.debts)+len(l.lost) == 0
}

// submit hands a call to a lane.
func (c *simClient) submit(i int, k *call) {
	k.node = int32(i)
	if a := c.nodes[i].lanes[0].submit(k, c.moment()); a != nil {
		c.answer(k, a)
	}
}

// answer routes an answer to the machine of the token.
func (c *simClient) answer(k *call, a *answer) {
	if k.t == nil {
		c.registered(k, a)
		return
	}
	if a.reply != nil && a.reply.Woken {
		c.g.wakes++
		c.left()
	}
	h := c.h
	if h == nil || k.t != &h.tenure {
		h = c.try
	}
	if h == nil || k.t != &h.tenure {
		return // of an attempt that is over
	}
	switch k.op {
	case seam.Acquire:
		c.voted(h, k, a)
	case seam.Raise:
		if h.state == stateAcquiring && h.fence.back.outcome == undecided && h.raised(int(k.node), a) != undecided {
			c.settled(h)
		}
	case seam.Extend:
		switch h.extended(int(k.node), k.seq, a, c.moment()) {
		case roundLost:
			c.lose(h.lostReason())
		case roundFailed:
			c.after(20*time.Millisecond, func() { c.extend(h) })
		case roundKept:
			if kept := c.kept; kept != nil {
				c.kept = nil
				kept()
			}
		}
	case seam.Release, opRecheck:
		if f := h.released(int(k.node), k.seq, a); f != freeOpen && h.state == stateReleasing {
			c.freed()
		}
	}
}

// watch ends a lease whose validity is over.
func (c *simClient) watch(h *hold) {
	if c.h != h || h.state != stateHeld {
		return
	}
	if left := h.valid.left(c.moment().instant) - h.margin(); left > 0 {
		c.after(left, func() { c.watch(h) })
		return
	}
	c.lose(LostNoQuorum)
}

func (c *simClient) lose(why LostReason) {
	h := c.h
	if h.state != stateHeld {
		return
	}
	if why == LostTaken {
		c.stillHeld(h)
	}
	h.end(why, c.ward.names)
	c.g.Note("client %d lost %s: %v", c.id, h.token, why)
	c.undo(h)
	c.over(h, false)
}

// stillHeld insists that a lease that was given up at once was not there any
// more: on a majority of the nodes it never was confirmed, or is gone.
func (c *simClient) stillHeld(h *hold) {
	kept := 0
	for i, n := range c.g.Nodes {
		if token, _, _ := n.Get(h.key); token == h.token && h.nodes[i].confirmed && h.nodes[i].code != seam.Readded {
			kept++
		}
	}
	if kept >= majority(len(h.nodes)) {
		c.g.Violated("client %d gave up %s, which a majority still has", c.id, h.token)
	}
}

func (c *simClient) undo(h *hold) {
	h.over.Store(true)
	for i := range c.nodes {
		if h.undoes(i) {
			c.submit(i, &call{op: seam.Release, t: &h.tenure, undo: true})
		}
	}
}

// extend renews a lease that still stands.
func (c *simClient) extend(h *hold) {
	if c.h != h || h.state != stateHeld || h.out {
		return
	}
	seq := h.extendAll(simTTL, c.moment())
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Extend, seq: seq, t: &h.tenure, ttl: simTTL})
	}
	c.after(simTimeout, func() {
		if h.seq == seq && h.extendExpired() == roundFailed {
			c.extend(h)
		}
	})
	c.after(simTTL/3, func() { c.extend(h) })
}
