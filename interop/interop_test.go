// Package interop holds a test against the real redsync: promise P11 says that
// during a migration the clients of both libraries exclude each other.
package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redlock-go/redlock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expiry is what both sides ask for: the max TTL of one must cover the other's.
const expiry = 10 * time.Second

// both is a client of each library on the same nodes.
type both struct {
	theirs *redsync.Redsync
	ours   *redlock.Locker
	nodes  []*redis.Client
}

func newBoth(t *testing.T, n int) *both {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no redis-server in PATH")
		}
		t.Skip("no redis-server in PATH")
	}
	b := &both{}
	var nodes []redlock.Node
	var pools []rsredis.Pool
	for range n {
		addr := startRedis(t)
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { c.Close() })
		b.nodes = append(b.nodes, c)
		pools = append(pools, goredis.NewPool(c))
		nodes = append(nodes, redlock.Master(&redis.Options{Addr: addr}))
	}
	b.theirs = redsync.New(pools...)
	l, err := redlock.New(nodes, redlock.WithKeyPrefix(""), redlock.WithTTL(expiry))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.ours = l
	return b
}

func (b *both) mutex(name string) *redsync.Mutex {
	return b.theirs.NewMutex(name, redsync.WithExpiry(expiry))
}

// values are what stands at a key, node by node.
func (b *both) values(t *testing.T, key string) (out []string) {
	t.Helper()
	for _, c := range b.nodes {
		v, err := c.Get(t.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// sizes are the numbers of nodes that are tried.
func sizes(t *testing.T, f func(t *testing.T, b *both)) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) { f(t, newBoth(t, n)) })
	}
}

// TestTheyHold: redsync has the name, so we are refused; then it is ours.
func TestTheyHold(t *testing.T) {
	sizes(t, func(t *testing.T, b *both) {
		ctx := t.Context()
		m := b.mutex("job")
		if err := m.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ours.TryAcquire(ctx, "job"); !errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("TryAcquire of a name that redsync holds: %v, want ErrHeld", err)
		}
		for i, v := range b.values(t, "job") {
			if v != m.Value() {
				t.Errorf("node %d has %q at the key after our attempt, want redsync's %q", i, v, m.Value())
			}
		}
		if ok, err := m.UnlockContext(ctx); !ok || err != nil {
			t.Errorf("redsync's unlock after our attempt: %v, %v", ok, err)
		}
		le, err := b.ours.TryAcquire(ctx, "job")
		if err != nil {
			t.Fatalf("TryAcquire after redsync's unlock: %v", err)
		}
		if err := le.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestWeHold: we have the name, so redsync is refused; then it is redsync's.
func TestWeHold(t *testing.T) {
	sizes(t, func(t *testing.T, b *both) {
		ctx := t.Context()
		le, err := b.ours.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		m := b.mutex("job")
		if err := m.TryLockContext(ctx); err == nil {
			t.Error("redsync got a name that we hold")
		}
		// The value is the bare token at the bare name, which is what makes the
		// above work (promise P11); redsync's own undo must not have freed it.
		have := 0
		for _, v := range b.values(t, "job") {
			if v == le.Token() {
				have++
			}
		}
		if have <= len(b.nodes)/2 {
			t.Errorf("%d of %d nodes have our token after redsync's attempt", have, len(b.nodes))
		}
		if err := le.Err(); err != nil {
			t.Error(err)
		}
		if err := le.Release(ctx); err != nil {
			t.Error(err)
		}
		// Release returns at a majority; redsync asks every node, and tries again.
		if err := m.LockContext(ctx); err != nil {
			t.Fatalf("redsync after our release: %v", err)
		}
		if _, err := b.ours.TryAcquire(ctx, "job"); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire of what redsync took over: %v, want ErrHeld", err)
		}
		if ok, err := m.UnlockContext(ctx); !ok || err != nil {
			t.Errorf("redsync's unlock: %v, %v", ok, err)
		}
	})
}

// TestWeWaitForThem: an Acquire that waits gets the name when redsync frees it.
func TestWeWaitForThem(t *testing.T) {
	b := newBoth(t, 3)
	ctx := t.Context()
	m := b.mutex("job")
	if err := m.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	var freed atomic.Bool
	asked := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		var once sync.Once
		le, err := b.ours.Acquire(ctx, "job", redlock.WithBackoff(func(int) time.Duration {
			once.Do(func() { close(asked) }) // the first round was refused
			return 5 * time.Millisecond
		}))
		if err == nil {
			if !freed.Load() {
				err = errors.New("got the name before redsync freed it")
			}
			err = errors.Join(err, le.Release(ctx))
		}
		got <- err
	}()
	<-asked
	freed.Store(true)
	if ok, err := m.UnlockContext(ctx); !ok || err != nil {
		t.Errorf("redsync's unlock: %v, %v", ok, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestContention: eight of each fight for one name, and count.
func TestContention(t *testing.T) {
	sizes(t, func(t *testing.T, b *both) {
		const each, turns = 8, 5
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var inside, overlaps atomic.Int32
		counter := 0 // the lock is all that guards it
		work := func() {
			if inside.Add(1) != 1 {
				overlaps.Add(1)
			}
			counter++
			inside.Add(-1)
		}
		var wg sync.WaitGroup
		for range each {
			wg.Go(func() {
				for range turns {
					// Many tries, soon after one another: what matters here is
					// that it excludes, not how long its defaults starve.
					m := b.theirs.NewMutex("job", redsync.WithExpiry(expiry), redsync.WithTries(100_000),
						redsync.WithRetryDelayFunc(func(try int) time.Duration { return time.Duration(1+try%7) * time.Millisecond }))
					if err := m.LockContext(ctx); err != nil {
						t.Errorf("redsync: %v", err)
						return
					}
					work()
					if ok, err := m.UnlockContext(ctx); !ok || err != nil {
						t.Errorf("redsync's unlock: %v, %v", ok, err)
					}
				}
			})
			wg.Go(func() {
				for range turns {
					le, err := b.ours.Acquire(ctx, "job")
					if err != nil {
						t.Errorf("ours: %v", err)
						return
					}
					work()
					if err := le.Release(ctx); err != nil {
						t.Errorf("our release: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if n := overlaps.Load(); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		if want := 2 * each * turns; counter != want && !t.Failed() {
			t.Errorf("counted %d, want %d: somebody overwrote somebody", counter, want)
		}
	})
}
