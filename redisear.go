package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// redisEar is a connection that is subscribed to one channel. It is never mended:
// go-redis would reconnect, behind the back of who has to know that wake-ups may
// have been missed, but its dialer gives one connection and then no other.
type redisEar struct {
	sock   redisConn // dials, and closes under a Next
	pubsub *redis.PubSub
	once   sync.Once
}

// Listen connects and subscribes to a channel.
func (d *redisDialer) Listen(channel string, timeout time.Duration) (seam.Ear, error) {
	opt := d.opt
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = timeout, timeout, timeout, timeout
	e := &redisEar{}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := e.sock.connect(ctx, &opt); err != nil {
		return nil, err
	}
	opt.Dialer = e.sock.handOver
	e.sock.client = redis.NewClient(&opt)
	e.pubsub = e.sock.client.Subscribe(ctx, channel)
	first, err := e.pubsub.ReceiveTimeout(ctx, timeout)
	if _, ok := first.(*redis.Subscription); err == nil && !ok {
		err = errors.New("SUBSCRIBE was answered in a shape that is not known")
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Next is the next message.
func (e *redisEar) Next() (string, error) {
	for {
		v, err := e.pubsub.Receive(context.Background())
		if err != nil {
			return "", err
		}
		if m, ok := v.(*redis.Message); ok {
			return m.Payload, nil
		}
	}
}

// Close ends the connection, also under a Next.
func (e *redisEar) Close() {
	e.once.Do(func() {
		_ = e.pubsub.Close()
		e.sock.Close()
	})
}
