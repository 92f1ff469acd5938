package memnode

import (
	"errors"
	"strconv"

	"github.com/redlock-go/redlock/internal/seam"
)

// mostFence is what a counter may be: doubles count without gaps up to 2^53.
const mostFence = 1<<53 - 1<<40

// aheadMost is how far a proposal may be ahead of the node's TIME, in µs.
const aheadMost = 1_000_000

// counter is a fence counter as Lua reads it: 0 where there is none, and not ok
// for what is no number.
func (n *Node) counter(key string) (last int64, ok bool, err error) {
	text, stands, err := n.text(key)
	if err != nil || !stands {
		return 0, true, err
	}
	last, parse := strconv.ParseInt(text, 10, 64)
	return last, parse == nil, nil
}

// acquireFenced is acquire_fenced.lua.
func (n *Node) acquireFenced(c *seam.Call) seam.Reply {
	last, ok, err := n.counter(c.FenceKey)
	switch {
	case err != nil:
		return refused(err)
	case !ok || last > mostFence:
		return refused(errors.New("FENCE the counter " + c.FenceKey + " is no number below 2^53 - 2^40"))
	}
	fence := max(n.micros, last+c.Block)
	if c.Fence <= n.micros+aheadMost {
		fence = max(fence, c.Fence)
	}
	ms := c.TTL.Milliseconds()
	if err := n.writable(ms); err != nil {
		return refused(err)
	}
	if _, held := n.get(c.Key); held {
		return seam.Reply{Code: seam.Held, Time: n.micros}
	}
	n.data[c.Key] = entry{value: c.Token, at: n.millis() + ms}
	if err := n.set(c.FenceKey, strconv.FormatInt(fence, 10), c.FenceTTL.Milliseconds()); err != nil {
		return refused(err)
	}
	if c.LabelKey != "" {
		n.data[c.LabelKey] = entry{value: c.Label, at: n.millis() + ms}
	}
	return seam.Reply{Code: seam.OK, Time: n.micros, Fence: fence}
}

// raise is raise.lua.
func (n *Node) raise(c *seam.Call) seam.Reply {
	if len(c.Also) > 0 {
		return n.raiseAll(c)
	}
	holder, held, err := n.text(c.Key)
	if err != nil {
		return refused(err)
	}
	if !held || holder != c.Token {
		return seam.Reply{Code: seam.Other}
	}
	last, ok, err := n.counter(c.FenceKey)
	switch {
	case err != nil:
		return refused(err)
	case ok && last >= c.Fence:
		return seam.Reply{Code: seam.Mine}
	case c.Fence > n.micros+c.Limit:
		return seam.Reply{Code: seam.Ahead}
	}
	if err := n.set(c.FenceKey, strconv.FormatInt(c.Fence, 10), c.FenceTTL.Milliseconds()); err != nil {
		return refused(err)
	}
	return seam.Reply{Code: seam.Mine}
}
