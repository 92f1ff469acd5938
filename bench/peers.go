package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// single is bsm/redislock over go-redis as it comes: one node by design.
type single struct {
	client *redis.Client
	lk     *redislock.Client
}

func openRedislock(_ context.Context, addrs []string) (locker, error) {
	c := redis.NewClient(&redis.Options{Addr: addrs[0]})
	return &single{c, redislock.New(c)}, nil
}

func (s *single) pair(ctx context.Context, name string, _ bool) error {
	held, err := s.lk.Obtain(ctx, name, lease, nil)
	if err != nil {
		return err
	}
	return held.Release(ctx)
}

// lock waits as its README shows it: a try every 100 ms.
func (s *single) lock(ctx context.Context, name string) (func() error, error) {
	every := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	held, err := s.lk.Obtain(ctx, name, lease, every)
	if err != nil {
		return nil, err
	}
	return func() error { return held.Release(context.WithoutCancel(ctx)) }, nil
}

func (s *single) close() { _ = s.client.Close() }

// tracking is rueidislock as it comes: three keys, of which two make the lock,
// on whatever server its client talks to; here the one node. Who waits is woken
// by the invalidation of its client-side cache.
type tracking struct{ l rueidislock.Locker }

func openRueidislock(_ context.Context, addrs []string) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: true},
		KeyValidity:  lease,
	})
	if err != nil {
		return nil, err
	}
	return &tracking{l}, nil
}

func (t *tracking) pair(ctx context.Context, name string, _ bool) error {
	_, release, err := t.l.WithContext(ctx, name)
	if err != nil {
		return err
	}
	release() // it waits for the deletes
	return nil
}

func (t *tracking) lock(ctx context.Context, name string) (func() error, error) {
	// ctx is the lock's too, whose end would free the name.
	held, release, err := t.l.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error {
		lost := held.Err()
		release()
		return lost
	}, nil
}

func (t *tracking) close() { t.l.Close() }
