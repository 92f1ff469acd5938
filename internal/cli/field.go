package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// field is where the demo plays: nodes, and how to break them.
type field struct {
	nodes          []redlock.Node
	kind, prefix   string
	killed, forgot string // what the two faults are called
	kill, forget   func(context.Context, int) error
	close          func()
}

// field makes what the flags ask for.
func (a *app) field(c *demoCmd) (*field, error) {
	switch {
	case c.SelfHosted > 0:
		return realField(a.ctx, c.SelfHosted)
	case len(a.flags.Nodes) > 0:
		return a.theirField()
	}
	return memField(5), nil
}

// memField plays on nodes in memory.
func memField(n int) *field {
	var mems []*memnode.Node
	f := &field{kind: "nodes in memory", prefix: "demo:", killed: "was killed", forgot: "forgot everything", close: func() {}}
	for i := range n {
		m := memnode.New(fmt.Sprint("node", i+1), nil)
		mems = append(mems, m)
		f.nodes = append(f.nodes, redlock.NodeOver(m.Dialer()))
	}
	f.kill = func(_ context.Context, i int) error { mems[i].Kill(); return nil }
	f.forget = func(_ context.Context, i int) error { mems[i].Forget(); return nil }
	return f
}

// realField plays on redis-servers that it starts.
func realField(ctx context.Context, n int) (*field, error) {
	servers, err := redisproc.StartN(ctx, n, redisproc.Options{})
	if err != nil {
		return nil, err
	}
	f := &field{kind: "redis-servers", prefix: "demo:", killed: "was killed (SIGKILL)", forgot: "was restarted empty"}
	for _, s := range servers {
		f.nodes = append(f.nodes, redlock.Master(&redis.Options{Addr: s.Addr()}))
	}
	f.kill = func(_ context.Context, i int) error { servers[i].Kill(); return nil }
	f.forget = func(ctx context.Context, i int) error { return servers[i].Restart(ctx, true) }
	f.close = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	return f, nil
}

// theirField plays on the user's own nodes without stopping, flushing or
// reconfiguring any: what is killed is our own way to a node, and what is
// forgotten are the demo's own keys and seal.
func (a *app) theirField() (*field, error) {
	theirs, err := a.nodes()
	if err != nil {
		return nil, err
	}
	if len(theirs) < 3 {
		return nil, &usageError{fmt.Sprintf("the demo takes a node away and lets another forget: it needs at least 3 nodes, not %d", len(theirs))}
	}
	f := &field{
		kind: "nodes of yours", prefix: "demo-" + uuid.NewString()[:8] + ":",
		killed: "was cut off (by a gate of the demo's own)", forgot: "forgot the demo's keys and seal",
	}
	var gates []*gate
	var clients []*redis.Client
	for _, n := range theirs {
		opt, ok := n.Options()
		if !ok {
			return nil, errors.New("the demo needs nodes that are Redis masters")
		}
		g := newGate(opt)
		gates = append(gates, g)
		clients = append(clients, redis.NewClient(opt))
		through := *opt
		through.Dialer = g.dial
		f.nodes = append(f.nodes, redlock.Master(&through))
	}
	f.kill = func(_ context.Context, i int) error { gates[i].shut(); return nil }
	f.forget = func(ctx context.Context, i int) error { return removeKeys(ctx, clients[i], f.prefix) }
	f.close = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for _, c := range clients {
			if err := removeKeys(ctx, c, f.prefix); err != nil {
				fmt.Fprintf(a.stderr, "redlock: notice: keys that contain %q may be left on %s: %v\n", f.prefix, c.Options().Addr, err)
			}
			_ = c.Close()
		}
	}
	return f, nil
}

// removeKeys deletes what the demo wrote: nothing else begins so.
func removeKeys(ctx context.Context, c *redis.Client, prefix string) error {
	keys := []string{"redlock:seal:" + prefix, "redlock:quarantine:" + prefix}
	for _, match := range []string{prefix + "*", "redlock:[lb]:" + prefix + "*"} {
		scan := c.Scan(ctx, 0, match, 1000).Iterator()
		for scan.Next(ctx) {
			keys = append(keys, scan.Val())
		}
		if err := scan.Err(); err != nil {
			return err
		}
	}
	return c.Del(ctx, keys...).Err()
}

// gate is our own door to a node: once shut it refuses connections and has cut
// those that went through. The server behind it notices nothing but that.
type gate struct {
	open func(context.Context, string, string) (net.Conn, error)
	mu   sync.Mutex
	out  bool
	live []net.Conn
}

func newGate(opt *redis.Options) *gate {
	g := &gate{open: opt.Dialer}
	if g.open == nil {
		g.open = redis.NewDialer(opt)
	}
	return g
}

var errShut = errors.New("connection refused by the demo's gate")

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	out := g.out
	g.mu.Unlock()
	if out {
		return nil, errShut
	}
	c, err := g.open(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out {
		_ = c.Close()
		return nil, errShut
	}
	g.live = append(g.live, c)
	return c, nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = true
	for _, c := range g.live {
		_ = c.Close()
	}
	g.live = nil
}
