package attack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/faultproxy"
	"github.com/redlock-go/redlock/internal/judge"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// file is what a server of ours writes down.
type file int

const (
	noFile file = iota
	everySecond
	always
)

// persistence of node i: a third of the servers each keep no append-only file,
// one that is synced every second, and one that always is.
func persistence(i int) file { return file(i % 3) }

// member is a node and how to break it.
type member struct {
	name   string // without secrets
	url    string
	opt    *redis.Options
	proxy  *faultproxy.Proxy
	server *redisproc.Server // nil for a user's
}

// field is the nodes.
type field struct {
	members []*member
	prefix  string
	kind    string
	locker  *redlock.Locker // directly to the nodes; for Init and Check
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newField starts or connects what the attack is made on, and seals it.
func newField(ctx context.Context, c Config) (_ *field, err error) {
	f := &field{prefix: "chaos-" + uuid.NewString()[:8] + ":", kind: "redis-servers"}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	urls := c.URLs
	if c.own() {
		for i := range c.Nodes {
			s, err := redisproc.Start(ctx, serverOptions(persistence(i)))
			if err != nil {
				return nil, err
			}
			f.members = append(f.members, &member{server: s})
			urls = append(urls, s.Addr())
		}
	} else {
		f.kind = "nodes of yours"
		for range urls {
			f.members = append(f.members, new(member))
		}
	}
	nodes, err := redlock.ParseNodes(urls...)
	if err != nil {
		return nil, err
	}
	for i, m := range f.members {
		opt, ok := nodes[i].Options()
		if !ok || opt.Network == "unix" {
			return nil, fmt.Errorf("attack: node %s has no TCP address to put a proxy before", nodes[i])
		}
		m.name, m.url, m.opt = nodes[i].String(), urls[i], opt
		if m.proxy, err = faultproxy.New(opt.Addr); err != nil {
			return nil, err
		}
	}
	if f.locker, err = redlock.New(nodes, append(c.options(), redlock.WithKeyPrefix(f.prefix))...); err != nil {
		return nil, err
	}
	return f, f.locker.Init(ctx)
}

// serverOptions also let a replica have its copy at once, not after 5 s.
func serverOptions(p file) redisproc.Options {
	o := redisproc.Options{AppendOnly: p != noFile, Args: []string{"--repl-diskless-sync-delay", "0"}}
	if p == everySecond {
		o.Args = append(o.Args, "--appendfsync", "everysec")
	}
	return o
}

// close takes everything down. A user's nodes lose what the attack wrote there.
func (f *field) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if f.locker != nil {
		_ = f.locker.Close()
	}
	for _, m := range f.members {
		if m.proxy != nil {
			m.proxy.Close()
		}
		switch {
		case m.server != nil:
			_ = m.server.Close()
		case m.opt != nil:
			_ = m.with(func(c *redis.Client) error {
				keys, err := f.keys(ctx, c)
				if err != nil {
					return err
				}
				return c.Del(ctx, append(keys, "redlock:seal:"+f.prefix, "redlock:quarantine:"+f.prefix)...).Err()
			})
		}
	}
}

// with lends a connection straight to the node. A fresh one: the last may have
// been to a server that was killed.
func (m *member) with(use func(*redis.Client) error) error {
	opt := *m.opt
	// A pool as large as its failed dials leaves a goroutine behind that tries again.
	opt.MaxRetries, opt.DialerRetries, opt.PoolSize, opt.MaxActiveConns, opt.DisableIdentity = -1, 1, 1_000_000, 1, true
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	c := redis.NewClient(&opt)
	return errors.Join(use(c), c.Close())
}

// keys are what stands on a node of the attack's locks: all but the seal and the
// quarantine, which are the node's own.
func (f *field) keys(ctx context.Context, c *redis.Client) ([]string, error) {
	var keys []string
	for _, match := range []string{f.prefix + "*", "redlock:?:" + f.prefix + "*"} {
		scan := c.Scan(ctx, 0, match, 1000).Iterator()
		for scan.Next(ctx) {
			keys = append(keys, scan.Val())
		}
		if err := scan.Err(); err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil // SCAN may give a key twice
}

// leftovers are the keys that are on the nodes now.
func (f *field) leftovers(ctx context.Context, now clock) ([]judge.Leftover, error) {
	var left []judge.Leftover
	for _, m := range f.members {
		err := m.with(func(c *redis.Client) error {
			keys, err := f.keys(ctx, c)
			if err != nil {
				return err
			}
			for _, k := range keys {
				ttl, err := c.PTTL(ctx, k).Result()
				if err != nil {
					return err
				}
				if ttl == -2 {
					continue // it ended between the two commands
				}
				l := judge.Leftover{Node: m.name, Key: k, TTL: ttl, At: now.now()}
				if strings.HasPrefix(k, f.prefix) {
					l.Token = c.Get(ctx, k).Val()
				}
				left = append(left, l)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("attack: what is left on node %s: %w", m.name, err)
		}
	}
	return left, nil
}

// sound says which nodes are sealed, out of quarantine and answer.
func (f *field) sound(ctx context.Context) []bool {
	all := make([]bool, len(f.members))
	for i, report := range f.locker.Check(ctx) {
		all[i] = report.OK
	}
	return all
}
