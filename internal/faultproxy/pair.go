package faultproxy

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialLimit bounds the way to a server that does not answer, say one that is
// stopped and whose backlog is full.
const dialLimit = 10 * time.Second

// pair is a client's connection and ours to the server.
type pair struct {
	p      *Proxy
	ctx    context.Context // ends with the pair
	cancel context.CancelFunc
	client *net.TCPConn
	done   chan struct{} // closed when both connections are

	// Under p.mu.
	server   *net.TCPConn // nil until connected, as are the links
	up, down *link
	ended    bool
}

func (c *pair) run() {
	defer c.gone()
	d := net.Dialer{Timeout: dialLimit}
	nc, err := d.DialContext(c.ctx, "tcp", c.p.target)
	if !c.connected(nc, err) {
		return
	}
	var wg sync.WaitGroup
	for _, l := range []*link{c.up, c.down} {
		wg.Go(l.read)
		wg.Go(l.write)
	}
	wg.Wait()
}

// connected takes over the connection to the server; false if the pair ended.
func (c *pair) connected(nc net.Conn, err error) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if err != nil {
		c.abort(true)
		return false
	}
	c.server = nc.(*net.TCPConn)
	if c.ended {
		reset(c.server)
		return false
	}
	c.up = newLink(c, up, c.client, c.server)
	c.down = newLink(c, down, c.server, c.client)
	return true
}

// links are the directions, none while the server is being connected to.
func (c *pair) links() []*link {
	if c.up == nil {
		return nil
	}
	return []*link{c.up, c.down}
}

// passesGap reports whether bytes that follow lost ones would pass.
func (c *pair) passesGap(f *Fault) bool {
	for _, l := range c.links() {
		if l.lost && !f.blackholes(l.dir) {
			return true
		}
	}
	return false
}

// abort ends the pair with RST towards both ends; but a connection to the
// server that is still being made is given up, which may look like FIN there.
// Under p.mu.
func (c *pair) abort(count bool) {
	if c.ended {
		return
	}
	c.ended = true
	if count {
		c.p.stats.Resets++
	}
	c.cancel()
	reset(c.client)
	if c.server != nil {
		reset(c.server)
	}
}

// finish ends the pair when both directions have. Under p.mu.
func (c *pair) finish() {
	if c.ended || !c.up.finished || !c.down.finished {
		return
	}
	c.ended = true
	c.cancel()
	_ = c.client.Close()
	_ = c.server.Close()
}

// gone takes the pair out of the books.
func (c *pair) gone() {
	c.p.mu.Lock()
	delete(c.p.pairs, c)
	c.p.stats.Open--
	for _, l := range c.links() {
		c.p.flow(l.dir).Waiting -= int64(l.size)
	}
	if c.p.cut == c { // it ended otherwise, so the shot is another's
		c.p.cut, c.p.cutIn = nil, c.p.fault.CutReplyAfter
	}
	c.p.mu.Unlock()
	close(c.done)
}

// reset closes a connection with RST instead of FIN.
func reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0)
	_ = nc.Close()
}
