package redlock

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is how the simulated processes are woken through the nodes.

// enlist listens to a node and registers there.
func (c *simClient) enlist(i int) {
	c.busy = true
	register := func() {
		if old := c.vigil.node; old >= 0 && old != i {
			c.g.sometimes["moved to another node"]++
			c.wakeCall(seam.Unregister, old)
			c.vigil.node = -1
		}
		c.wakeCall(seam.Register, i)
	}
	if c.ears[i] != nil {
		register()
		return
	}
	c.after(c.g.Delay(), func() {
		s := c.g.Nodes[i].NewSession()
		c.g.Nodes[i].Subscribe(s, c.channel(), func(m string) { c.g.deliver(c, i, m) })
		c.ears[i] = s
		register()
	})
}

func (c *simClient) channel() string { return fmt.Sprint(channelPrefix, c.id) }

// deliver carries a wake-up: most arrive, some late, some never.
func (g *game) deliver(c *simClient, node int, m string) {
	if g.lossy() && g.Rand.IntN(10) == 0 {
		g.sometimes["wake-up lost"]++
		return
	}
	s := c.ears[node]
	d := g.Delay()
	if d > simTTL/10 {
		g.sometimes["wake-up late"]++
	}
	g.For(c.id, d, func() {
		if c.ears[node] == s && s != nil {
			c.heard(node, m[0] == '1')
		}
	})
}

// heard is a wake-up that arrived.
func (c *simClient) heard(node int, spent bool) {
	switch {
	case len(c.line) > 0:
		if c.h != nil {
			c.g.sometimes["woken while its process holds"]++
		}
		c.vigil.woken(node, spent)
		c.advance()
	case c.h == nil && !c.mutant.has(mutantNoPassOn):
		c.g.sometimes["woken for nobody"]++
		c.wakeCall(seam.PassOn, node)
	}
}

// listenOn notices connections that are gone.
func (c *simClient) listenOn() {
	for i, s := range c.ears {
		if s == nil || c.g.Nodes[i].Alive(s) {
			continue
		}
		c.ears[i] = nil
		if c.vigil.deafened(i) {
			c.g.sometimes["designated node died under a waiter"]++
			c.advance()
		}
	}
}

// wakeCall sends one of the calls about waiting.
func (c *simClient) wakeCall(op seam.Op, node int) {
	if node < 0 {
		return
	}
	own := &seam.Call{Op: op, Key: "lock:x", WakeKey: wakePrefix + "lock:x", Channel: c.channel(), TTL: min(listLife, c.ward.quarantine)}
	c.submit(node, &call{op: op, own: own})
}

// registered takes the answer to a registration.
func (c *simClient) registered(k *call, a *answer) {
	if k.op != seam.Register {
		return
	}
	c.busy = false
	node := int(k.node)
	if a.code != seam.OK {
		c.g.sometimes["could not register"]++
		c.vigil.settled(&view{now: c.moment().mono, backoff: 50 * time.Millisecond})
	} else {
		view := c.view()
		c.vigil.enlisted(node, &view)
	}
	c.advance()
}
