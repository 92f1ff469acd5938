package memnode

import (
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// waiter is a member of the sorted set of those who wait for a name.
type waiter struct {
	channel string
	score   int64
}

// maxWaiters is how many enlist.lua takes.
const maxWaiters = 10_000

// waiting is the set at a key.
func (n *Node) waiting(key string) ([]waiter, error) {
	e, ok := n.get(key)
	if ok && e.waiters == nil {
		return nil, errWrongType
	}
	return e.waiters, nil
}

// enlist is enlist.lua.
func (n *Node) enlist(c *seam.Call) seam.Reply {
	all, err := n.waiting(c.WakeKey)
	known := slices.ContainsFunc(all, func(w waiter) bool { return w.channel == c.Channel })
	switch {
	case err != nil:
		return refused(err)
	case !known && len(all) >= maxWaiters:
		return seam.Reply{Code: seam.Other}
	case n.replica:
		return refused(errReadOnly)
	}
	if !known {
		all = append(slices.Clone(all), waiter{c.Channel, n.micros})
		slices.SortFunc(all, order)
	}
	if ms := c.TTL.Milliseconds(); ms > 0 {
		n.data[c.WakeKey] = entry{waiters: all, at: n.millis() + ms}
	} else {
		delete(n.data, c.WakeKey)
	}
	return seam.Reply{Code: seam.OK}
}

// unlist is ZREM.
func (n *Node) unlist(c *seam.Call) seam.Reply {
	_, err := n.waiting(c.WakeKey)
	switch {
	case n.replica:
		return refused(errReadOnly)
	case err != nil:
		return refused(err)
	}
	n.remove(c.WakeKey, c.Channel)
	return seam.Reply{Code: seam.OK}
}

// remove takes a member out; the last takes the key along.
func (n *Node) remove(key, channel string) {
	e, ok := n.get(key)
	if !ok {
		return
	}
	e.waiters = slices.DeleteFunc(slices.Clone(e.waiters), func(w waiter) bool { return w.channel == channel })
	if n.data[key] = e; len(e.waiters) == 0 {
		delete(n.data, key)
	}
}

// passOn is passon.lua.
func (n *Node) passOn(c *seam.Call) seam.Reply {
	all, err := n.waiting(c.WakeKey)
	switch {
	case err != nil:
		return refused(err)
	case n.replica && slices.ContainsFunc(all, func(w waiter) bool { return w.channel != c.Channel }):
		return refused(errReadOnly)
	}
	return seam.Reply{Code: seam.OK, Woken: n.wake(c.WakeKey, c.Channel, "1"+c.Key)}
}

// wake publishes a message to the first at a key who listens, other than except.
func (n *Node) wake(key, except, message string) bool {
	all, err := n.waiting(key)
	if err != nil || n.replica {
		return false
	}
	for _, w := range all {
		if w.channel == except {
			continue
		}
		n.remove(key, w.channel)
		if n.publish(w.channel, message) > 0 {
			return true
		}
	}
	return false
}

// publish is PUBLISH.
func (n *Node) publish(channel, message string) (heard int) {
	for e := range n.ears {
		if e.channel == channel && !e.c.s.dead {
			heard++
			e.hear(message)
		}
	}
	return heard
}

// Subscribe is the server's side of an ear, for simulators: what is published on
// the channel is given to hear, while the session lives. hear must not call the
// node.
func (n *Node) Subscribe(s *Session, channel string, hear func(message string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !s.dead {
		n.ears[&ear{c: &conn{n: n, s: s}, channel: channel, tell: hear}] = struct{}{}
	}
}

// Alive says whether the session's connection still stands.
func (n *Node) Alive(s *Session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !s.dead
}

// Listen subscribes to a channel.
func (d dialer) Listen(channel string, timeout time.Duration) (seam.Ear, error) {
	c, err := d.Dial(timeout)
	if err != nil {
		return nil, err
	}
	e := &ear{c: c.(*conn), channel: channel, heard: make(chan string, maxHeard)}
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.c.s.dead {
		return nil, fmt.Errorf("dial %s: %w", n.name, syscall.ECONNRESET)
	}
	n.ears[e] = struct{}{}
	return e, nil
}

// maxHeard is what a server would buffer for an ear that does not read.
const maxHeard = 1024

// ear is a connection that listens.
type ear struct {
	c       *conn
	channel string
	heard   chan string
	tell    func(string)
}

// hear takes a message. Nobody is there to be blocked: what does not fit is lost.
func (e *ear) hear(message string) {
	if e.tell != nil {
		e.tell(message)
		return
	}
	select {
	case e.heard <- message:
	default:
	}
}

// Next is the next message.
func (e *ear) Next() (string, error) {
	select {
	case m := <-e.heard:
		return m, nil
	case <-e.c.s.gone:
		return "", io.EOF
	case <-e.c.closed:
		return "", io.EOF
	}
}

// Close ends the connection.
func (e *ear) Close() {
	e.c.n.mu.Lock()
	delete(e.c.n.ears, e)
	e.c.n.mu.Unlock()
	e.c.Close()
}
