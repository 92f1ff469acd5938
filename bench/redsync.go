package main

import (
	"context"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// peer is redsync v4 over go-redis as it comes.
type peer struct {
	clients []*redis.Client
	rs      *redsync.Redsync
	opts    []redsync.Option
}

func openRedsync(_ context.Context, addrs []string) (locker, error) {
	return newPeer(addrs), nil
}

func openRedsyncFailFast(_ context.Context, addrs []string) (locker, error) {
	return newPeer(addrs, redsync.WithFailFast(true)), nil
}

func newPeer(addrs []string, opts ...redsync.Option) *peer {
	p := &peer{opts: append([]redsync.Option{redsync.WithExpiry(lease)}, opts...)}
	var pools []rsredis.Pool
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		p.clients = append(p.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	p.rs = redsync.New(pools...)
	return p
}

func (p *peer) pair(ctx context.Context, name string, _ bool) error {
	m := p.rs.NewMutex(name, p.opts...)
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	_, err := m.UnlockContext(ctx)
	return err
}

func (p *peer) lock(ctx context.Context, name string) (func() error, error) {
	m := p.rs.NewMutex(name, p.opts...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}, nil
}

func (p *peer) close() {
	for _, c := range p.clients {
		_ = c.Close()
	}
}
