package main

import (
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// floor is the plainest fan-out that go-redis, as it comes, allows: a goroutine
// per node and operation, SET NX PX on all nodes at once, return at the
// majority; the compare-and-delete likewise. It is a floor for cost and no
// correct lock: it has no validity, no undo, and its release can overtake its
// own acquire on a slow node, but for where callers wait for a name: there every
// key left that way would block it for a whole lease, and nothing else would be
// measured. A single node is asked without a goroutine.
type floor struct {
	nodes []*redis.Client
	need  int
	ms    int64
	sha   string
	late  sync.WaitGroup // operations whose caller did not wait for them
}

const floorDelete = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

var errFloor = errors.New("floor: no majority")

func openFloor(ctx context.Context, addrs []string) (locker, error) {
	f := &floor{need: len(addrs)/2 + 1, ms: lease.Milliseconds()}
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		f.nodes = append(f.nodes, c)
		sha, err := c.ScriptLoad(ctx, floorDelete).Result()
		if err != nil {
			f.close()
			return nil, err
		}
		f.sha = sha
	}
	return f, nil
}

func (f *floor) set(ctx context.Context, c *redis.Client, name, token string) bool {
	cmd := redis.NewBoolCmd(ctx, "set", name, token, "px", f.ms, "nx")
	_ = c.Process(ctx, cmd)
	ok, err := cmd.Result()
	return err == nil && ok
}

func (f *floor) del(ctx context.Context, c *redis.Client, name, token string) bool {
	n, err := c.EvalSha(ctx, f.sha, []string{name}, token).Int64()
	return err == nil && n == 1
}

// fanOut runs op on all nodes and says whether a majority said yes, as soon as
// that is decided.
func (f *floor) fanOut(ctx context.Context, name, token string, op func(context.Context, *redis.Client, string, string) bool) bool {
	return f.fanOutOn(ctx, &f.late, name, token, op)
}

// fanOutOn is fanOut with late done when the last node has answered.
func (f *floor) fanOutOn(ctx context.Context, late *sync.WaitGroup, name, token string, op func(context.Context, *redis.Client, string, string) bool) bool {
	if len(f.nodes) == 1 {
		return op(ctx, f.nodes[0], name, token)
	}
	votes := make(chan bool, len(f.nodes))
	for _, c := range f.nodes {
		late.Go(func() { votes <- op(ctx, c, name, token) })
	}
	yes, no := 0, 0
	for yes < f.need && no <= len(f.nodes)-f.need {
		if <-votes {
			yes++
		} else {
			no++
		}
	}
	return yes >= f.need
}

func (f *floor) pair(ctx context.Context, name string, _ bool) error {
	token := rand.Text()
	if !f.fanOut(ctx, name, token, f.set) {
		f.fanOut(ctx, name, token, f.del)
		return errFloor
	}
	if !f.fanOut(ctx, name, token, f.del) {
		return errFloor
	}
	return nil
}

func (f *floor) lock(ctx context.Context, name string) (func() error, error) {
	for {
		token := rand.Text()
		asked := new(sync.WaitGroup)
		if f.fanOutOn(ctx, asked, name, token, f.set) {
			return func() error {
				asked.Wait()
				f.fanOut(context.WithoutCancel(ctx), name, token, f.del)
				return nil
			}, nil
		}
		asked.Wait()
		f.fanOut(context.WithoutCancel(ctx), name, token, f.del)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500*time.Microsecond + mrand.N(time.Millisecond)):
		}
	}
}

func (f *floor) close() {
	for _, c := range f.nodes {
		_ = c.Close()
	}
	f.late.Wait()
}
