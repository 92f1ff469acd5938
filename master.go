package redlock

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/internal/seam"
)

// Master is an independent Redis master as a voter. The options are copied; of
// them count the address, credentials, database, TLS, Dialer and ClientName.
// Timeouts and pools are the Locker's own (see [WithNodeTimeout]).
func Master(opt *redis.Options) Node {
	if opt == nil {
		return Node{err: &ConfigError{"node", "nil options", "give the address of a Redis master"}}
	}
	d := newRedisDialer(opt)
	return Node{dialer: d, where: d.where()}
}

// Client is the master that a client of yours is connected to. Its options are
// copied; the client itself is neither used nor closed.
func Client(c *redis.Client) Node {
	if c == nil {
		return Node{err: &ConfigError{"node", "nil client", "give a connected *redis.Client, or use Master"}}
	}
	opt := c.Options()
	if opt.Addr == "FailoverClient" {
		return Node{err: &ConfigError{
			"node", "failover client",
			"hides which master it talks to, so its vote cannot be trusted; give the group with Sentinel (redis+sentinel://)",
		}}
	}
	own := *opt
	if ownDialer(own.Dialer) {
		own.Dialer = nil
	}
	return Master(&own)
}

// ownDialer reports whether a client's dialer is the one that go-redis fills in
// where the user gave none. It is bound to that client's DialTimeout, which over
// TLS even a context does not shorten, so it is left out. go-redis does not tell
// it apart, but by its name (which is longer where NewDialer was inlined).
func ownDialer(dial func(context.Context, string, string) (net.Conn, error)) bool {
	if dial == nil {
		return true
	}
	f := runtime.FuncForPC(reflect.ValueOf(dial).Pointer())
	return f != nil && strings.HasPrefix(f.Name(), "github.com/redis/go-redis/v9.") && strings.Contains(f.Name(), "NewDialer.")
}

// Options are a copy of the options that the node's connections are made with,
// credentials included; false for a node that is no Redis server.
func (n Node) Options() (*redis.Options, bool) {
	d, ok := n.dialer.(*redisDialer)
	if !ok {
		return nil, false
	}
	opt := d.opt
	return &opt, true
}

// redisDialer connects lanes to one server. Each connection is a go-redis
// client of its own with a pool of one: a pool answers from a cached error
// after PoolSize failed dials and probes once a second, and a lane has to know
// at once.
type redisDialer struct {
	opt  redis.Options
	name string
}

func newRedisDialer(opt *redis.Options) *redisDialer {
	d := &redisDialer{opt: *opt}
	o := &d.opt
	if o.Addr == "" {
		o.Addr = "localhost:6379"
	}
	if o.Network == "" {
		o.Network = "tcp"
		if o.Addr[0] == '/' {
			o.Network = "unix"
		}
	}
	if o.ClientName == "" {
		o.ClientName = "redlock"
	}
	o.Protocol = 2 // RESP3 costs 18–87 allocations more per pair
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
	o.PipelinePoolSize = -1
	o.ConnMaxIdleTime, o.ConnMaxLifetime = -1, -1
	o.Limiter, o.PushNotificationProcessor, o.AutoPipelineOptions = nil, nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	d.name = o.Addr
	if o.Network == "unix" {
		d.name = "unix:" + o.Addr
	}
	if o.DB != 0 {
		d.name = fmt.Sprintf("%s/%d", d.name, o.DB)
	}
	return d
}

// where is the address alone: two databases of one server are one server.
func (d *redisDialer) where() string { return d.opt.Network + " " + d.opt.Addr }

func (d *redisDialer) Node() string { return d.name }
func (d *redisDialer) DB() int      { return d.opt.DB }

// Dial connects, authenticates and selects the database.
func (d *redisDialer) Dial(timeout time.Duration) (seam.Conn, error) {
	opt := d.opt
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = timeout, timeout, timeout, timeout
	c := &redisConn{timeout: timeout}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.connect(ctx, &opt); err != nil {
		return nil, err
	}
	opt.Dialer = c.handOver
	// go-redis unwraps a refusal of the handshake, so that it looks like PING's;
	// OnConnect runs where the handshake is done.
	greet := opt.OnConnect
	opt.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if greet != nil {
			if err := greet(ctx, cn); err != nil {
				return err
			}
		}
		c.ready = true
		return nil
	}
	client := redis.NewClient(&opt)
	c.client, c.conn = client, client.Conn()
	tap := &pipelineTap{}
	c.conn.AddHook(tap)
	c.run = tap.run
	// The first command dials and says HELLO, AUTH and SELECT on the way. That a
	// user may not PING is no harm.
	err := c.conn.Ping(ctx).Err()
	if err != nil && (!c.ready || !redis.HasErrorPrefix(err, "NOPERM")) {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect makes the connection that the client will find. A pool that cannot
// dial says so in a log of its own, at every probe of a node that is down.
func (c *redisConn) connect(ctx context.Context, opt *redis.Options) error {
	dial := opt.Dialer
	if dial == nil {
		dial = redis.NewDialer(opt)
	}
	nc, err := dial(ctx, opt.Network, opt.Addr)
	c.net = nc // kept, so that Close works while a batch is out
	return err
}

// handOver is the client's dialer: it gives the connection, once.
func (c *redisConn) handOver(context.Context, string, string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.given {
		return nil, net.ErrClosed
	}
	c.given = true
	return c.net, nil
}

// socket is what Close needs, guarded by its own lock.
type socket struct {
	mu     sync.Mutex
	net    net.Conn
	given  bool // to the client
	closed bool
}
