package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock"
)

// ours is this library as it comes: renewal on, every node checked.
type ours struct{ l *redlock.Locker }

func openRedlock(ctx context.Context, addrs []string) (locker, error) {
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlock.Master(&redis.Options{Addr: addr}))
	}
	// Its warnings about nodes that the bench itself breaks would tear the table.
	l, err := redlock.New(nodes, redlock.WithTTL(lease), redlock.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	if err := l.Init(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &ours{l}, nil
}

// pair takes the way of most callers, Acquire; once is TryAcquire, so that no
// second round can hide a first one that failed.
func (o *ours) pair(ctx context.Context, name string, once bool) error {
	acquire := o.l.Acquire
	if once {
		acquire = o.l.TryAcquire
	}
	held, err := acquire(ctx, name)
	if err != nil {
		return err
	}
	return held.Release(ctx)
}

func (o *ours) lock(ctx context.Context, name string) (func() error, error) {
	held, err := o.l.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { return held.Release(ctx) }, nil
}

func (o *ours) close() { _ = o.l.Close() }
