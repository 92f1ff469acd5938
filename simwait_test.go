package redlock

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is how the simulated processes wait: several callers each, one of which
// contends by the real vigil, is woken through the nodes, and is handed what another
// one of its process releases.

// next lets a caller that did something else want the name.
func (c *simClient) next() {
	if c.g.stop || c.idle == 0 {
		return
	}
	c.idle--
	c.line = append(c.line, c.rounds)
	if c.h != nil && len(c.line) == 1 {
		c.g.sometimes["waits for its own process"]++
	}
	c.advance()
}

// pause lets a caller do something else for a while.
func (c *simClient) pause(most int) {
	c.idle++
	c.after(time.Duration(c.g.Rand.IntN(most)+1)*time.Millisecond, c.next)
}

// designated is the node through which this client is woken.
func (c *simClient) designated() int {
	best, most := -1, uint64(0)
	for i, n := range c.nodes {
		if r := rank(n.name, "x"); (best < 0 || r > most) && n.lanes[0].phase == phaseOpen && n.abstains(c.moment()) == nil {
			best, most = i, r
		}
	}
	return best
}

func (c *simClient) view() view {
	v := view{
		now: c.moment().mono, own: c.h != nil, designated: c.designated(),
		backoff: time.Duration(c.g.Rand.IntN(200)) * time.Millisecond, poll: time.Duration(900+c.g.Rand.IntN(200)) * time.Millisecond,
	}
	v.down = c.vigil.node >= 0 && c.nodes[c.vigil.node].lanes[0].phase != phaseOpen
	tokens := make(map[string]int)
	for _, n := range c.g.Nodes {
		if token, _, ok := n.Get("lock:x"); ok {
			tokens[token]++
			v.firm = v.firm || tokens[token] >= majority(len(c.nodes))
		}
	}
	return v
}

// advance does what the vigil wants next.
func (c *simClient) advance() {
	if c.busy || len(c.line) == 0 || c.g.stop {
		return
	}
	view := c.view()
	m := c.vigil.next(&view)
	switch m.kind {
	case moveTry:
		c.attempt(m.node)
	case moveEnlist:
		c.enlist(m.node)
	default:
		c.rests++
		rest := c.rests
		c.after(m.wait, func() {
			if c.rests == rest && !c.busy && len(c.line) > 0 {
				c.vigil.slept()
				c.advance()
			}
		})
	}
}

// attempt starts a round, over all nodes or behind a gate.
func (c *simClient) attempt(gate int) {
	n := len(c.nodes)
	if c.tokens == 0 || !c.mutant.has(mutantTokenReused) {
		c.tokens++
	}
	h := &hold{drift: Drift{Rate: 0.01, Fixed: 2 * time.Millisecond}, ttl: simTTL, nodes: make([]nodeHold, n), round: newRound(n, nil), mutant: c.mutant}
	h.round.need = h.majority()
	h.name, h.key, h.token = "x", "lock:x", fmt.Sprintf("%d-%d", c.id, c.tokens)
	h.wake = wakePrefix + h.key
	h.lane, h.sent = make([]uint8, n), make([]bool, n)
	h.from = c.moment()
	if c.fenced {
		h.fence = newFencing(n, fencePrefix+h.key, simTTL, c.ward.quarantine)
		if c.g.Rand.IntN(2) == 0 { // else as one that knows no clock yet
			h.fence.propose = c.propose()
		}
	}
	c.busy, c.try, c.gate = true, h, gate
	if gate >= 0 {
		c.g.sometimes["gated try"]++
		c.submit(gate, &call{op: seam.Acquire, t: &h.tenure, ttl: simTTL})
		c.after(20*time.Millisecond, func() { c.open(h) })
	} else {
		c.gate = 0
		c.open(h)
	}
	c.after(simTimeout, func() {
		if c.try == h && h.state == stateAcquiring && h.round.outcome == undecided {
			h.expire()
			c.decided(h)
		}
	})
}

// open asks the nodes that were not asked yet.
func (c *simClient) open(h *hold) {
	if c.try != h || h.state != stateAcquiring || c.gate < 0 {
		return
	}
	c.gate = -1
	for i := range c.nodes {
		if c.try == h && !h.sent[i] && h.round.votes[i] == votePending && !c.queued(i, h) {
			c.submit(i, &call{op: seam.Acquire, t: &h.tenure, ttl: simTTL})
		}
	}
}

// queued says whether an acquire of the attempt waits in a lane.
func (c *simClient) queued(i int, h *hold) bool {
	for _, k := range c.nodes[i].lanes[0].queue {
		if k.t == &h.tenure && k.op == seam.Acquire {
			return true
		}
	}
	return false
}

// voted takes a vote.
func (c *simClient) voted(h *hold, k *call, a *answer) {
	before := h.round.outcome
	outcome := h.voted(int(k.node), a)
	switch {
	case h.state != stateAcquiring:
	case c.gate == int(k.node) && a.vote == voteHeld && outcome == undecided:
		c.g.sometimes["refused at the gate"]++
		h.state = stateFailed
		h.over.Store(true)
		c.lost(h)
	case outcome != undecided && before == undecided:
		c.decided(h)
	case c.gate == int(k.node):
		c.open(h)
	}
}

// decided ends a round.
func (c *simClient) decided(h *hold) {
	if h.round.outcome == granted && !h.settle() && h.fence.back.outcome == undecided {
		c.writeBack(h)
		return
	}
	c.settled(h)
}

// settled ends an attempt, whose fence is known.
func (c *simClient) settled(h *hold) {
	if h.round.outcome != granted || !h.fenced() || !h.won(c.moment()) {
		h.state = stateFailed
		c.undo(h)
		c.lost(h)
		return
	}
	if c.vigil.working {
		c.g.sometimes["woken and won"]++
	}
	switch {
	case h.fence != nil && h.fence.back.votes == nil:
		c.g.sometimes["fence in one round"]++
	case h.fence != nil:
		c.g.sometimes["fence written back"]++
	}
	c.busy, c.try, c.h = false, nil, h
	c.line = c.line[1:]
	c.wakeCall(seam.Unregister, c.vigil.won())
	c.after(simTTL/3, func() { c.extend(h) })
	c.watch(h)
	c.holds(h)
}

// holds is a caller that has the name now.
func (c *simClient) holds(h *hold) {
	c.g.grants++
	c.g.last = c.g.Now()
	c.g.Note("client %d holds %s, %d", c.id, h.token, h.gen)
	for _, o := range c.g.clients {
		if o != c && o.h != nil && o.holding && o.h.alive(o.moment().instant) {
			c.g.Violated("client %d has %s while client %d still holds %s", c.id, h.token, o.id, o.h.token)
		}
	}
	if n := h.number(); h.fence != nil && n <= c.g.fence {
		c.g.Violated("client %d holds %s with fence %d, after a grant with %d", c.id, h.token, n, c.g.fence)
	} else if h.fence != nil {
		c.g.fence = n
	}
	c.holding = true
	gen := h.gen
	most := int64(3 * simTTL)
	if c.g.Rand.IntN(2) == 0 {
		most = int64(simTTL / 20)
	}
	d := time.Duration(c.g.Rand.Int64N(most))
	c.after(d, func() { c.release(h, gen) })
	c.after(d+time.Duration(c.g.Rand.Int64N(int64(simTTL))), func() { c.release(h, gen) }) // once more, late
}

// lost ends a try that did not win.
func (c *simClient) lost(h *hold) {
	if c.try != h {
		return
	}
	c.busy, c.try = false, nil
	view := c.view()
	if c.vigil.lost(&view) {
		c.g.sometimes["wake-up passed on"]++
		c.wakeCall(seam.PassOn, c.vigil.gate)
	}
	c.advance()
}

// Cancel ends the wait of the first in line, or the attempt under way.
func (c *simClient) Cancel() {
	h := c.try
	if h != nil {
		h.state = stateFailed
		c.undo(h)
		c.busy, c.try = false, nil
	}
	if len(c.line) > 0 {
		c.line = c.line[1:]
		c.pause(50)
	}
	if len(c.line) == 0 {
		registered, pass := c.vigil.over()
		c.wakeCall(seam.Unregister, registered)
		c.wakeCall(seam.PassOn, pass)
	}
	c.advance()
}

// release is the end of a caller's hold: the lease is handed to the next caller of
// the process, or freed. A handle whose lease was handed over does nothing.
func (c *simClient) release(h *hold, gen uint32) {
	if c.h != h || h.state != stateHeld || gen != h.gen && !c.mutant.has(mutantOldHandle) {
		return
	}
	c.holding = false
	if !c.g.stop && len(c.line) > 0 && !c.busy && h.passes(c.moment()) {
		c.line = c.line[1:]
		h.passed(c.moment(), 0)
		c.pause(20)
		if c.mutant.has(mutantOwnerless) {
			c.undo(h)
		}
		d := time.Duration(c.g.Rand.IntN(3)) * time.Millisecond
		if c.g.Rand.IntN(20) == 0 {
			d = time.Duration(c.g.Rand.Int64N(int64(2 * simTTL))) // the machine lets it wait
		}
		c.after(d, func() { c.take(h) })
		return
	}
	c.pause(20)
	c.free(h)
}

// take is the other end of a hand-over.
func (c *simClient) take(h *hold) {
	if c.h != h || h.state != stateHeld {
		c.g.sometimes["lost while handed over"]++
		c.pause(20)
		return
	}
	switch alive, short := h.received(c.moment()); {
	case !alive:
		c.pause(20)
		c.free(h)
	case short:
		c.g.sometimes["extended before it was taken"]++
		c.kept = func() { c.take(h) }
		c.extend(h)
		c.after(simTimeout, func() {
			if c.h == h && !c.holding && c.kept != nil {
				c.kept = nil
				c.pause(20)
				c.free(h)
			}
		})
	default:
		c.g.sometimes["handed over"]++
		c.holds(h)
	}
}

// free sends the deletes.
func (c *simClient) free(h *hold) {
	if h.state != stateHeld {
		return
	}
	seq := h.releaseAll()
	c.g.Note("client %d releases %s", c.id, h.token)
	for i := range c.nodes {
		c.submit(i, &call{op: seam.Release, seq: seq, t: &h.tenure})
	}
	c.after(simTimeout, func() {
		if c.h == h && h.state == stateReleasing {
			c.freed()
		}
	})
}

func (c *simClient) freed() {
	h := c.h
	h.state = stateReleased
	c.over(h, h.handed >= maxHandOvers)
}

// over is the end of a lease, whatever ended it.
func (c *simClient) over(h *hold, back bool) {
	if c.h != h {
		return
	}
	if h.state == stateLost && c.holding {
		c.pause(2)
	}
	c.h, c.holding, c.kept = nil, false, nil
	if len(c.line) > 0 {
		c.vigil.freed(back || c.vigil.back)
	}
	c.advance()
}

// left is a release that woke another process.
func (c *simClient) left() {
	if c.h != nil {
		c.vigil.back = true
	}
}
