package redlock

import "github.com/redlock-go/redlock/internal/seam"

// propose is what a client asks the nodes for.
func (c *simClient) propose() int64 {
	var clocks []int64
	for _, n := range c.nodes {
		if ahead := n.ahead.Load(); ahead != 0 {
			clocks = append(clocks, ahead)
		}
	}
	return propose(clocks, c.moment().mono)
}

// writeBack is the second round of an attempt with a fence.
func (c *simClient) writeBack(h *hold) {
	for i, ask := range h.fence.asks {
		if ask && c.try == h && h.state == stateAcquiring {
			c.submit(i, &call{op: seam.Raise, t: &h.tenure})
		}
	}
	c.after(simTimeout, func() {
		if c.try == h && h.state == stateAcquiring {
			c.g.sometimes["fence not written back"]++
			c.settled(h)
		}
	})
}
