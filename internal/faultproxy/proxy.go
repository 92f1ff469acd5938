// Package faultproxy is a TCP proxy on loopback between a client and one
// server, which does to the connection what networks do: refuse it, lose or
// keep what is sent one way, deliver it late, cut it in the middle of a reply.
//
// It keeps at most 256 KiB for each direction of a connection. At that bound it
// stops reading, and the sender feels TCP's own backpressure.
//
// The kernel accepts connections, so a new one is established even where a
// blackhole would lose its first packet. A client whose server cannot be
// reached is accepted and then reset, maybe before its connect has returned; only
// RefuseNew looks like a closed port.
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy is one proxy. Its methods are safe for concurrent use.
type Proxy struct {
	target string
	addr   string
	free   func() // gives the port back

	setMu sync.Mutex // one Set, Reset or Close at a time; before mu
	door  *door      // nil while new connections are refused

	mu     sync.Mutex
	quiet  *sync.Cond // a write has ended
	fault  Fault      // the shots in it (Cut…, Drop…) are those not yet spent
	epoch  int        // counts the Sets
	cut    *pair      // the connection that CutReplyAfter hits, once there is one
	cutIn  int        // after how many more bytes
	pairs  map[*pair]struct{}
	stats  Stats
	closed bool

	running sync.WaitGroup // pairs
}

// New starts a proxy on a free port of 127.0.0.1 that connects to target, a
// host:port. It need not be up.
func New(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("target %q is no host:port: %w", target, err)
	}
	addr, free, err := reserve()
	if err != nil {
		return nil, err
	}
	ln, err := listen(addr)
	if err != nil {
		free()
		return nil, err
	}
	p := &Proxy{target: target, addr: ln.Addr().String(), free: free, pairs: make(map[*pair]struct{})}
	p.quiet = sync.NewCond(&p.mu)
	p.door = p.open(ln)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// Stats are the counters now.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Fault is the fault in force; CutReplyAfter is 0 once it has hit, and
// DropReplies is what is left of it.
func (p *Proxy) Fault() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Heal ends all faults: what was held is delivered.
func (p *Proxy) Heal() { p.Set(Fault{}) }

// Set replaces the fault in force. When it returns, the new one is: bytes that
// the client's or the server's kernel does not have yet are subject to it.
func (p *Proxy) Set(f Fault) {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	f.CutReplyAfter, f.DropReplies = max(0, f.CutReplyAfter), max(0, f.DropReplies)
	p.fault = f
	p.epoch++
	p.cut, p.cutIn = nil, f.CutReplyAfter
	var ended []*pair
	for c := range p.pairs {
		if c.passesGap(&f) {
			c.abort(true)
			ended = append(ended, c)
		}
		for _, l := range c.links() {
			if l.writing {
				_ = l.dst.SetWriteDeadline(time.Unix(1, 0)) // it decides anew about the rest
			}
			poke(l.wake)
		}
	}
	for c := range p.pairs {
		for _, l := range c.links() {
			for l.writing && l.epoch != p.epoch {
				p.quiet.Wait()
			}
		}
	}
	p.mu.Unlock()
	for _, c := range ended {
		<-c.done
	}
	switch {
	case f.RefuseNew && p.door != nil:
		p.door.shut()
		p.door = nil
	case !f.RefuseNew && p.door == nil:
		ln, err := listen(p.addr)
		if err != nil {
			ln = nil // the door tries again, until somebody shuts it
		}
		p.door = p.open(ln)
	}
}

// Reset cuts all present connections with RST, towards both ends.
func (p *Proxy) Reset() {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.abortAll(true)
}

// abortAll cuts all connections and waits until they are.
func (p *Proxy) abortAll(count bool) {
	p.mu.Lock()
	var ended []*pair
	for c := range p.pairs {
		c.abort(count)
		ended = append(ended, c)
	}
	p.mu.Unlock()
	for _, c := range ended {
		<-c.done
	}
}

// Close cuts all connections, which throws away what is held, gives the port
// back, and returns when nothing of the proxy runs any more.
func (p *Proxy) Close() {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		return
	}
	if p.door != nil {
		p.door.shut()
		p.door = nil
	}
	p.abortAll(false)
	p.running.Wait()
	p.free()
}

// add takes over an accepted connection.
func (p *Proxy) add(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c := &pair{p: p, ctx: ctx, cancel: cancel, client: client, done: make(chan struct{})}
	p.pairs[c] = struct{}{}
	p.stats.Accepted++
	p.stats.Open++
	p.running.Go(c.run)
}

// flow is the counters of one direction.
func (p *Proxy) flow(d direction) *Flow {
	if d == up {
		return &p.stats.Up
	}
	return &p.stats.Down
}

// swallow reports whether the next chunk of reply is to be thrown away. It
// counts the shots, and at the last one does what is to follow.
func (p *Proxy) swallow(l *link) bool {
	if p.fault.DropReplies == 0 {
		return false
	}
	l.lost = true
	if p.fault.DropReplies--; p.fault.DropReplies == 0 && p.fault.DropThenReset {
		for c := range p.pairs {
			if c.down != nil && c.down.lost {
				c.abort(true)
			}
		}
	}
	return true
}

// untilCut is how many of n bytes of reply may pass before the connection is cut.
func (p *Proxy) untilCut(c *pair, n int) int {
	if p.fault.CutReplyAfter == 0 {
		return n
	}
	if p.cut == nil {
		p.cut = c
	}
	if p.cut != c {
		return n
	}
	return min(n, p.cutIn)
}

// cutAfter counts n bytes of reply and cuts the connection when it is due.
func (p *Proxy) cutAfter(c *pair, n int) {
	if p.cut != c {
		return
	}
	if p.cutIn -= n; p.cutIn <= 0 {
		p.cut, p.fault.CutReplyAfter = nil, 0
		c.abort(true)
	}
}
