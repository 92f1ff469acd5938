package memnode

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
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
	left bool          // guarded by the node: the client closed it while the node hung
	gone chan struct{} // closed with dead
}

// NewSession accepts a connection. That of a killed node is gone at once.
func (n *Node) NewSession() *Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.accept()
	if n.down {
		n.cut(s)
	}
	return s
}

func (n *Node) accept() *Session {
	n.lastID++
	n.accepted++
	s := &Session{
		id: n.lastID, gone: make(chan struct{}),
		addr: fmt.Sprintf("127.0.0.1:%d", 1024+n.accepted%64000), // no port comes back soon
	}
	n.sessions[s] = struct{}{}
	return s
}

// cut ends a session. What it still had in the backlog is never executed.
func (n *Node) cut(s *Session) {
	if !s.dead {
		s.dead = true
		close(s.gone)
		delete(n.sessions, s)
		for e := range n.ears {
			if e.c.s == s {
				delete(n.ears, e)
			}
		}
	}
}

// request is a batch that came while the node hung.
type request struct {
	s       *Session
	calls   []seam.Call
	replies []seam.Reply
	late    time.Duration // how late the replies come once they are made
	err     error
	done    chan struct{} // closed when the above are filled in
}

// never is how late a lost reply comes.
const never = time.Duration(math.MaxInt64)

// lateness is how late the reply to a batch comes that is executed now.
func (n *Node) lateness() time.Duration {
	if n.lose {
		return never
	}
	return n.delay
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
	failed  error // of an earlier Do, whose replies might still come
	closed  chan struct{}
	once    sync.Once
}

// Do runs a batch, with the faults that the node has at the moment.
func (c *conn) Do(calls []seam.Call, replies []seam.Reply) error {
	if c.failed == nil {
		c.failed = c.do(calls, replies)
	}
	return c.failed
}

func (c *conn) do(calls []seam.Call, replies []seam.Reply) error {
	n := c.n
	n.mu.Lock()
	select {
	case <-c.closed:
		n.mu.Unlock()
		return os.ErrClosed
	default:
	}
	if n.hung {
		// What is written now is executed when the node wakes, whatever
		// becomes of this client until then.
		r := &request{s: c.s, calls: slices.Clone(calls), replies: make([]seam.Reply, len(calls)), done: make(chan struct{})}
		n.backlog = append(n.backlog, r)
		n.mu.Unlock()
		return c.await(r, replies)
	}
	err, late := n.exec(c.s, calls, replies), n.lateness()
	n.mu.Unlock()
	if err == nil {
		err = c.linger(late, c.timeout)
	}
	if err != nil {
		clear(replies) // they had not come
	}
	return err
}

// await waits for a node that hangs to take a batch.
func (c *conn) await(r *request, replies []seam.Reply) error {
	start := time.Now()
	timedOut, err := c.wait(r.done, c.timeout)
	if timedOut {
		err = c.errTimeout()
	}
	if err == nil {
		err = r.err
	}
	if err == nil {
		err = c.linger(r.late, c.timeout-time.Since(start))
	}
	if err == nil {
		copy(replies, r.replies)
	}
	return err
}

// linger lets a reply be late, at most until the timeout.
func (c *conn) linger(late, timeout time.Duration) error {
	if late <= 0 {
		return nil
	}
	_, err := c.wait(nil, min(late, timeout))
	if err == nil && late >= timeout {
		err = c.errTimeout()
	}
	return err
}

func (c *conn) errTimeout() error {
	return fmt.Errorf("read %s: %w", c.n.name, os.ErrDeadlineExceeded)
}

// wait blocks until done or the end of the connection, at most for d.
func (c *conn) wait(done <-chan struct{}, d time.Duration) (timedOut bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return false, nil
	case <-c.s.gone:
		return false, io.EOF
	case <-c.closed:
		return false, os.ErrClosed
	case <-t.C:
		return true, nil
	}
}

// Close ends the connection. The server notices at once, unless it hangs: then
// what it has not read yet is still executed before it does.
func (c *conn) Close() {
	c.once.Do(func() {
		close(c.closed)
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		if c.n.hung {
			c.s.left = true
			return
		}
		c.n.cut(c.s)
	})
}
