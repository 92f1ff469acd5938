package redlock_test

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// world is a set of in-memory nodes on which the clients of a scenario meet.
// Unlike redlocktest it lets a test see, and break, single kinds of calls.
type world struct {
	t     *testing.T
	nodes []*memnode.Node
	deaf  bool // clients made from now on cannot be woken, and poll by their back-off
}

// newWorld makes n nodes, sealed for the clients that will come with opts.
func newWorld(t *testing.T, n int, opts ...redlock.Option) *world {
	t.Helper()
	w := &world{t: t}
	for i := range n {
		w.nodes = append(w.nodes, memnode.New(fmt.Sprintf("mem%d", i), nil))
	}
	w.client(opts...).init()
	return w
}

// virtual runs a scenario over n nodes in virtual time.
func virtual(t *testing.T, n int, f func(t *testing.T, w *world), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, n, opts...)) })
}

// client is one client, as another process would be, with an eye on what it
// sends.
type client struct {
	*redlock.Locker
	t *testing.T

	mu     sync.Mutex
	sent   map[seam.Op]int
	dials  int     // tries to connect
	faults []fault // one per node
}

// fault is what becomes of this client's calls to one node.
type fault struct {
	slow time.Duration    // a batch reaches the node late by this
	lose map[seam.Op]bool // a batch with such a call is executed, its replies are lost
	late time.Duration    // the replies of a batch with an extend are late by this
}

// client makes a client of the world, closed when the test ends.
func (w *world) client(opts ...redlock.Option) *client {
	w.t.Helper()
	c := &client{t: w.t, sent: make(map[seam.Op]int), faults: make([]fault, len(w.nodes))}
	var nodes []redlock.Node
	for i, n := range w.nodes {
		var d seam.Dialer = hearingDialer{spyDialer{Dialer: n.Dialer(), c: c, node: i}}
		if w.deaf {
			d = d.(hearingDialer).spyDialer
		}
		nodes = append(nodes, redlock.NodeOver(d))
	}
	quiet := redlock.WithLogger(slog.New(slog.DiscardHandler))
	l, err := redlock.New(nodes, append([]redlock.Option{quiet}, opts...)...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, l.Close()) })
	c.Locker = l
	return c
}

func (c *client) init() {
	c.t.Helper()
	require.NoError(c.t, c.Init(c.t.Context()))
}

// held acquires a name, or fails the test.
func (c *client) held(name string, opts ...redlock.LockOption) *redlock.Lease {
	c.t.Helper()
	lease, err := c.Acquire(c.t.Context(), name, opts...)
	require.NoError(c.t, err)
	return lease
}

// count is how many calls of one kind the client sent to all nodes together.
func (c *client) count(op seam.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[op]
}

// dialled is how often the client tried to connect, to all nodes together.
func (c *client) dialled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// fault changes what becomes of the client's calls to node i.
func (c *client) fault(i int, f fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[i] = f
}

// note counts a batch, and says which fault it meets.
func (c *client) note(node int, calls []seam.Call) (f fault, lost, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f = c.faults[node]
	for i := range calls {
		c.sent[calls[i].Op]++
		lost = lost || f.lose[calls[i].Op]
		late = late || f.late > 0 && calls[i].Op == seam.Extend
	}
	return f, lost, late
}

type spyDialer struct {
	seam.Dialer
	c    *client
	node int
}

func (d spyDialer) Dial(timeout time.Duration) (seam.Conn, error) {
	d.c.mu.Lock()
	d.c.dials++
	d.c.mu.Unlock()
	conn, err := d.Dialer.Dial(timeout)
	if err != nil {
		return nil, err
	}
	return &spyConn{Conn: conn, d: d, timeout: timeout, closed: make(chan struct{})}, nil
}

// hearingDialer also lets those who wait be woken, as servers do.
type hearingDialer struct{ spyDialer }

func (d hearingDialer) Listen(channel string, timeout time.Duration) (seam.Ear, error) {
	return d.Dialer.(seam.Listener).Listen(channel, timeout)
}

type spyConn struct {
	seam.Conn
	d       spyDialer
	timeout time.Duration
	once    sync.Once
	closed  chan struct{}
}

func (c *spyConn) Do(calls []seam.Call, replies []seam.Reply) error {
	f, lost, late := c.d.c.note(c.d.node, calls)
	if f.slow > 0 && !c.pause(f.slow) {
		return os.ErrClosed
	}
	err := c.Conn.Do(calls, replies)
	switch {
	case err != nil:
		return err
	case lost, late && f.late >= c.timeout:
		c.pause(c.timeout)
		clear(replies)
		return os.ErrDeadlineExceeded
	case late && !c.pause(f.late):
		clear(replies)
		return os.ErrClosed
	}
	return nil
}

// pause waits, and is false when the connection was closed meanwhile.
func (c *spyConn) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.closed:
		return false
	}
}

func (c *spyConn) Close() {
	c.once.Do(func() { close(c.closed) })
	c.Conn.Close()
}

// put lets another's key stand on the given nodes.
func (w *world) put(key, value string, ttl time.Duration, nodes ...int) {
	for _, i := range nodes {
		w.nodes[i].Put(key, value, ttl)
	}
}

// holds insists on who has a key on the given nodes; "" for nobody.
func (w *world) holds(key, value string, nodes ...int) {
	w.t.Helper()
	for _, i := range nodes {
		got, _, _ := w.nodes[i].Get(key)
		require.Equal(w.t, value, got, "%s on node %d", key, i)
	}
}

// gone insists that nothing stands at a key, once everybody is idle.
func (w *world) gone(key string) {
	w.t.Helper()
	synctest.Wait()
	for i := range w.nodes {
		w.holds(key, "", i)
	}
}

// warm connects a client, and lets every trip take a moment: else a verdict may
// come before the last node was sent its call, which then needs no sending.
func (w *world) warm(c *client) {
	w.t.Helper()
	w.first(len(w.nodes), func(n *memnode.Node) { n.Delay(time.Millisecond) })
	require.NoError(w.t, c.held("warm").Release(w.t.Context()))
	time.Sleep(time.Second)
}

// first does something to each of the first n nodes.
func (w *world) first(n int, f func(*memnode.Node)) {
	for _, node := range w.nodes[:n] {
		f(node)
	}
}

// took is how long f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// pass lets virtual time pass.
func (*world) pass(d time.Duration) { time.Sleep(d) }
