package memnode

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Session is the server's side of one connection.
type Session struct {
	id   int64
	addr string
	dead bool          // guarded by the node
	gone chan struct{} // closed with dead
}

// NewSession accepts a connection.
func (n *Node) NewSession() *Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accept()
}

func (n *Node) accept() *Session {
	n.lastID++
	s := &Session{id: n.lastID, addr: fmt.Sprintf("127.0.0.1:%d", 20000+n.life*1000+int(n.lastID)), gone: make(chan struct{})}
	n.sessions[s] = struct{}{}
	return s
}

// cut ends a session. What it still had in the backlog is never executed.
func (n *Node) cut(s *Session) {
	if !s.dead {
		s.dead = true
		close(s.gone)
		delete(n.sessions, s)
	}
}

// request is a batch that came while the node hung.
type request struct {
	s       *Session
	calls   []seam.Call
	replies []seam.Reply
	err     error
	done    chan struct{}
}

// Dialer connects to the node as go-redis would to a server: an attempt blocks
// while the node hangs, until the timeout.
func (n *Node) Dialer() seam.Dialer { return dialer{n} }

type dialer struct{ n *Node }

func (d dialer) Node() string { return d.n.name }
func (d dialer) DB() int      { return 0 }

func (d dialer) Dial(timeout time.Duration) (seam.Conn, error) {
	n := d.n
	n.mu.Lock()
	if n.down {
		n.mu.Unlock()
		return nil, fmt.Errorf("dial %s: %w", n.name, syscall.ECONNREFUSED)
	}
	c := &conn{n: n, s: n.accept(), timeout: timeout, closed: make(chan struct{})}
	n.mu.Unlock()
	// The handshake: an empty batch, which waits like any other.
	if err := c.Do(nil, nil); err != nil {
		c.Close()
		return nil, fmt.Errorf("dial %s: %w", n.name, err)
	}
	return c, nil
}

// conn is the client's side of a connection.
type conn struct {
	n       *Node
	s       *Session
	timeout time.Duration
	closed  chan struct{}
	once    sync.Once
}

// Do runs a batch, with the faults that the node has at the moment.
func (c *conn) Do(calls []seam.Call, replies []seam.Reply) error {
	n := c.n
	n.mu.Lock()
	select {
	case <-c.closed:
		n.mu.Unlock()
		return os.ErrClosed
	default:
	}
	if n.hung && !c.s.dead {
		// What is written now is executed when the node wakes, whatever
		// becomes of this client until then.
		r := &request{s: c.s, calls: append([]seam.Call(nil), calls...), replies: make([]seam.Reply, len(calls)), done: make(chan struct{})}
		n.backlog = append(n.backlog, r)
		n.mu.Unlock()
		if err := c.wait(r.done, c.timeout); err != nil {
			return err
		}
		copy(replies, r.replies)
		return r.err
	}
	err := n.exec(c.s, calls, replies)
	delay, lose := n.delay, n.lose
	n.mu.Unlock()
	switch {
	case err != nil:
		return err
	case lose:
		clear(replies)
		return c.wait(nil, c.timeout)
	case delay > 0:
		if delay >= c.timeout {
			clear(replies)
			return c.wait(nil, c.timeout)
		}
		return c.pause(delay)
	}
	return nil
}

// wait blocks until done, the end of the connection, or the timeout.
func (c *conn) wait(done <-chan struct{}, timeout time.Duration) error {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-c.s.gone:
		return io.EOF
	case <-c.closed:
		return os.ErrClosed
	case <-t.C:
		return fmt.Errorf("read %s: %w", c.n.name, os.ErrDeadlineExceeded)
	}
}

// pause lets a reply be late.
func (c *conn) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.s.gone:
		return io.EOF
	case <-c.closed:
		return os.ErrClosed
	}
}

// Close ends the connection. The server notices at once, unless it hangs: then
// what it has not read yet is still executed.
func (c *conn) Close() {
	c.once.Do(func() {
		close(c.closed)
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		if !c.n.hung {
			c.n.cut(c.s)
		}
	})
}
