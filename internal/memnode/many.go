package memnode

import (
	"errors"
	"strconv"

	"github.com/redlock-go/redlock/internal/seam"
)

// acquireAll is acquire_all.lua.
func (n *Node) acquireAll(c *seam.Call) seam.Reply {
	names, fence := c.Names(), int64(0)
	if c.FenceKey != "" {
		if fence = n.micros; c.Fence <= n.micros+aheadMost {
			fence = max(fence, c.Fence)
		}
		for i := range names {
			last, ok, err := n.counter(names[i].FenceKey)
			switch {
			case err != nil:
				return refused(err)
			case !ok || last > mostFence:
				return refused(errors.New("FENCE the counter " + names[i].FenceKey + " is no number below 2^53 - 2^40"))
			}
			fence = max(fence, last+c.Block)
		}
	}
	for i := range names {
		if _, held := n.get(names[i].Key); held {
			return seam.Reply{Code: seam.Held, Time: n.micros}
		}
	}
	ms := c.TTL.Milliseconds()
	set := func(of func(k *seam.Names) string, value string, ms int64) error {
		for i := range names {
			if err := n.set(of(&names[i]), value, ms); err != nil {
				return err
			}
		}
		return nil
	}
	err := set(func(k *seam.Names) string { return k.Key }, c.Token, ms)
	if err == nil && c.FenceKey != "" {
		err = set(func(k *seam.Names) string { return k.FenceKey }, strconv.FormatInt(fence, 10), c.FenceTTL.Milliseconds())
	}
	if err == nil && c.LabelKey != "" {
		err = set(func(k *seam.Names) string { return k.LabelKey }, c.Label, ms)
	}
	if err != nil {
		return refused(err)
	}
	return seam.Reply{Code: seam.OK, Time: n.micros, Fence: fence}
}

// extendAll is extend_all.lua.
func (n *Node) extendAll(c *seam.Call) seam.Reply {
	if c.NotAfter > 0 && n.micros > c.NotAfter {
		return seam.Reply{Code: seam.Stale, Time: n.micros}
	}
	names := c.Names()
	mine := make([]bool, len(names))
	for i := range names {
		holder, held, err := n.text(names[i].Key)
		switch {
		case err != nil:
			return refused(err)
		case held && holder != c.Token:
			return seam.Reply{Code: seam.Other}
		}
		mine[i] = held
	}
	for i := range names {
		if mine[i] {
			continue
		}
		mark, marked, err := n.text(names[i].MarkKey)
		switch {
		case err != nil:
			return refused(err)
		case marked && mark == c.Token:
			return seam.Reply{Code: seam.Broken}
		}
	}
	code, ms := seam.Mine, c.TTL.Milliseconds()
	for i := range names {
		var err error
		switch k := &names[i]; {
		case !mine[i]:
			code, err = seam.Readded, n.set(k.Key, c.Token, ms)
		case n.pttl(k.Key) < ms:
			err = n.expire(k.Key, ms)
		}
		if err == nil && c.LabelKey != "" {
			err = n.set(names[i].LabelKey, c.Label, max(ms, n.pttl(names[i].Key)))
		}
		if err != nil {
			return refused(err)
		}
	}
	return seam.Reply{Code: code}
}

// releaseAll is release_all.lua.
func (n *Node) releaseAll(c *seam.Call) seam.Reply {
	r, names := seam.Reply{Code: seam.Deleted}, c.Names()
	for i := range names {
		one := *c
		one.Key, one.LabelKey = names[i].Key, names[i].LabelKey
		if c.LabelKey == "" {
			one.LabelKey = ""
		}
		holder, held, err := n.text(one.Key)
		if err == nil && held && holder == c.Token {
			err = n.free(&one)
		} else {
			r.Code = seam.Gone
		}
		if err != nil {
			return refused(err)
		}
	}
	if c.KeepFor > 0 || c.WakeKey == "" {
		return r
	}
	for i := range names {
		one := seam.Call{Key: names[i].Key, WakeKey: names[i].WakeKey}
		if c.QueueKey != "" {
			one.QueueKey, one.EndsKey = names[i].QueueKey, names[i].EndsKey
		}
		if n.tell(&one) {
			r.Woken = true
		}
	}
	return r
}

// raiseAll is raise_all.lua.
func (n *Node) raiseAll(c *seam.Call) seam.Reply {
	names := c.Names()
	for i := range names {
		holder, held, err := n.text(names[i].Key)
		switch {
		case err != nil:
			return refused(err)
		case !held || holder != c.Token:
			return seam.Reply{Code: seam.Other}
		}
	}
	var low []string
	for i := range names {
		last, ok, err := n.counter(names[i].FenceKey)
		if err != nil {
			return refused(err)
		}
		if !ok || last < c.Fence {
			low = append(low, names[i].FenceKey)
		}
	}
	if len(low) > 0 && c.Fence > n.micros+c.Limit {
		return seam.Reply{Code: seam.Ahead}
	}
	for _, key := range low {
		if err := n.set(key, strconv.FormatInt(c.Fence, 10), c.FenceTTL.Milliseconds()); err != nil {
			return refused(err)
		}
	}
	return seam.Reply{Code: seam.Mine}
}
