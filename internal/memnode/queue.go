package memnode

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is the scripts of a queue: next.lua and those that use it.

// order is that of a sorted set.
func order(a, b waiter) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.channel, b.channel))
}

// score is ZSCORE.
func score(set []waiter, who string) (at int64, ok bool) {
	i := slices.IndexFunc(set, func(w waiter) bool { return w.channel == who })
	if i < 0 {
		return 0, false
	}
	return set[i].score, true
}

// put is ZADD, which keeps the time that the key has.
func (n *Node) put(key, who string, at int64) error {
	set, err := n.waiting(key)
	switch {
	case n.replica:
		return errReadOnly
	case err != nil:
		return err
	}
	set = slices.DeleteFunc(slices.Clone(set), func(w waiter) bool { return w.channel == who })
	set = append(set, waiter{who, at})
	slices.SortFunc(set, order)
	e, _ := n.get(key)
	e.waiters = set
	n.data[key] = e
	return nil
}

// take is ZREM.
func (n *Node) take(key, who string) error {
	set, err := n.waiting(key)
	switch {
	case n.replica:
		return errReadOnly
	case err != nil:
		return err
	}
	if _, ok := score(set, who); ok {
		n.remove(key, who)
	}
	return nil
}

// first is who stands first and lives, "" for nobody, and until when.
func (n *Node) first(c *seam.Call) (who string, till int64, err error) {
	ends, err := n.waiting(c.EndsKey)
	if err != nil {
		return "", 0, err
	}
	for _, w := range ends {
		if w.score >= n.millis() {
			break
		}
		if err := cmp.Or(n.take(c.QueueKey, w.channel), n.take(c.EndsKey, w.channel)); err != nil {
			return "", 0, err
		}
	}
	queue, err := n.waiting(c.QueueKey)
	if err != nil {
		return "", 0, err
	}
	ends, _ = n.waiting(c.EndsKey)
	for _, w := range queue {
		if till, ok := score(ends, w.channel); ok {
			return w.channel, till, nil
		}
		if err := n.take(c.QueueKey, w.channel); err != nil {
			return "", 0, err
		}
	}
	return "", 0, nil
}

// tell tells whoever is next that a name is free: reserve, or else wake.
func (n *Node) tell(c *seam.Call) (woken bool) {
	if c.QueueKey != "" {
		if heard, queued := n.reserve(c); queued {
			return heard
		}
	}
	return n.wake(c.WakeKey, "", "0"+c.Key)
}

// reserve keeps a free lock for who stands first, and wakes it.
func (n *Node) reserve(c *seam.Call) (heard, queued bool) {
	if _, ok := n.get(c.QueueKey); !ok {
		return false, false
	}
	who, till, err := n.first(c)
	if err != nil || who == "" {
		return false, false
	}
	holder, held, err := n.text(c.Key)
	if err != nil {
		return false, false
	}
	if !held || strings.HasPrefix(holder, seam.Reserved) {
		if n.set(c.Key, seam.Reserved+who, max(till-n.millis(), 1)) != nil {
			return false, false
		}
	}
	channel, _, _ := strings.Cut(who, ".")
	return n.publish(channel, "2"+who) > 0, true
}

// acquireFair is acquire_fair.lua.
func (n *Node) acquireFair(c *seam.Call) seam.Reply {
	r := seam.Reply{Code: seam.Held, Time: n.micros}
	var fence int64
	if c.FenceKey != "" {
		last, ok, err := n.counter(c.FenceKey)
		switch {
		case err != nil:
			return refused(err)
		case !ok || last > mostFence:
			return refused(errors.New("FENCE the counter " + c.FenceKey + " is no number below 2^53 - 2^40"))
		}
		if fence = max(n.micros, last+c.Block); c.Fence <= n.micros+aheadMost {
			fence = max(fence, c.Fence)
		}
	}
	head, till, err := n.place(c, &r)
	if err != nil {
		return refused(err)
	}
	if r.Code == seam.Full {
		return r
	}
	holder, held, err := n.text(c.Key)
	switch {
	case err != nil:
		r.TTL = -3
		return r
	case held && !strings.HasPrefix(holder, seam.Reserved):
		r.TTL = pttlOf(n.pttl(c.Key))
		return r
	case head != "" && head != c.Who:
		if held && holder == seam.Reserved+c.Who {
			err = n.expire(c.Key, c.Lease.Milliseconds())
		}
		if err != nil {
			return refused(err)
		}
		r.TTL = pttlOf(till - n.millis())
		return r
	}
	err = n.set(c.Key, c.Token, c.TTL.Milliseconds())
	if err == nil && c.FenceKey != "" {
		err = n.set(c.FenceKey, strconv.FormatInt(fence, 10), c.FenceTTL.Milliseconds())
	}
	if err == nil && c.LabelKey != "" {
		err = n.set(c.LabelKey, c.Label, c.TTL.Milliseconds())
	}
	if err != nil {
		return refused(err)
	}
	r.Code, r.Fence = seam.OK, fence
	return r
}

// place is the part of acquire_fair.lua that keeps the queue.
func (n *Node) place(c *seam.Call, r *seam.Reply) (head string, till int64, err error) {
	if head, till, err = n.first(c); err != nil {
		return "", 0, err
	}
	last, ok, err := n.counter(c.TicketKey)
	if err != nil {
		return "", 0, err
	}
	if last = min(last, mostFence); !ok {
		last = 0
	}
	queue, _ := n.waiting(c.QueueKey)
	r.Ticket, r.Length = max(n.micros, last+1), len(queue)
	if c.Ticket <= 0 {
		return head, till, nil
	}
	if _, ok := score(queue, c.Who); !ok {
		if len(queue) >= c.Places {
			r.Code = seam.Full
			return "", 0, nil
		}
		if err := n.put(c.QueueKey, c.Who, c.Ticket); err != nil {
			return "", 0, err
		}
		r.Length++
	}
	lease := c.Lease.Milliseconds()
	if err := n.put(c.EndsKey, c.Who, n.millis()+lease); err != nil {
		return "", 0, err
	}
	for _, key := range []string{c.QueueKey, c.EndsKey} {
		if err := n.expire(key, max(lease, n.pttl(key))); err != nil {
			return "", 0, err
		}
	}
	if err := n.set(c.TicketKey, strconv.FormatInt(max(last, c.Ticket), 10), c.TicketTTL.Milliseconds()); err != nil {
		return "", 0, err
	}
	return n.first(c)
}

// leave is leave.lua.
func (n *Node) leave(c *seam.Call) seam.Reply {
	if err := cmp.Or(n.take(c.QueueKey, c.Who), n.take(c.EndsKey, c.Who)); err != nil {
		return refused(err)
	}
	r := seam.Reply{Code: seam.OK}
	if c.WakeKey == "" {
		return r
	}
	holder, held, err := n.text(c.Key)
	switch {
	case err != nil:
		return refused(err)
	case held && holder == seam.Reserved+c.Who:
		if err := n.del(c.Key); err != nil {
			return refused(err)
		}
	case held:
		return r
	}
	r.Woken = n.tell(c)
	return r
}

// queued is who queues and lives, as inspect.lua tells it.
func (n *Node) queued(c *seam.Call) (all []seam.Waiter) {
	queue, err := n.waiting(c.QueueKey)
	ends, other := n.waiting(c.EndsKey)
	if err != nil || other != nil {
		return nil
	}
	for _, w := range queue[:min(len(queue), 1000)] {
		if till, ok := score(ends, w.channel); ok && till >= n.millis() {
			all = append(all, seam.Waiter{Who: w.channel, Ticket: w.score})
		}
	}
	return all
}
