package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// The tests of the files scenario_*_test.go are cases that users of other
// Redis locks reported, each named after its case.

// Whoever loses a split vote frees what it got, also where no answer came, and
// nothing of the other's.
func TestACQ03_NobodyLeavesSplitVotesBehind(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithMaxTTL(30*time.Second), redlock.WithTTL(30*time.Second))
		w.put("lock:x", "B", 30*time.Second, 1)
		a.fault(2, fault{lose: map[seam.Op]bool{seam.Acquire: true}})
		var err error
		require.LessOrEqual(t, took(func() { _, err = a.TryAcquire(t.Context(), "x") }), 300*time.Millisecond)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotZero(t, a.count(seam.Acquire))
		time.Sleep(300 * time.Millisecond)
		w.holds("lock:x", "", 0, 2)
		w.holds("lock:x", "B", 1)
	}, redlock.WithMaxTTL(30*time.Second))
}

// Two clients that split four votes get apart by themselves: jitter.
func TestACQ04_AnEvenSplitDoesNotLiveLock(t *testing.T) {
	virtual(t, 4, func(t *testing.T, w *world) {
		attempts := make(chan int, 1000)
		hook := redlock.WithHooks(redlock.Hooks{AcquireDone: func(_ context.Context, e redlock.AcquireEvent) {
			if e.Err == nil {
				attempts <- e.Attempts
			}
		}})
		a, b := w.client(hook), w.client(hook)
		for _, c := range []*client{a, b} { // connect first: what is to be raced is the votes
			require.NoError(t, c.held("warm").Release(t.Context()))
			<-attempts
		}
		for i := range 2 { // each reaches its own two nodes first
			a.fault(2+i, fault{slow: time.Millisecond})
			b.fault(i, fault{slow: time.Millisecond})
		}
		splits := 0
		for run := range 50 {
			name := fmt.Sprint("run", run)
			start := time.Now()
			var wg sync.WaitGroup
			leases := make([]*redlock.Lease, 2)
			errs := make([]error, 2)
			won := make(chan time.Duration, 2)
			for i, c := range []*client{a, b} {
				wg.Go(func() {
					leases[i], errs[i] = c.Acquire(t.Context(), name, redlock.WithWait(5*time.Second))
					if errs[i] == nil {
						won <- time.Since(start)
					}
				})
			}
			wg.Wait()
			require.Len(t, won, 1, "exactly one has it: %v", errs)
			require.LessOrEqual(t, <-won, 2*time.Second)
			if <-attempts > 1 {
				splits++
			}
			for i, lease := range leases {
				if lease == nil {
					require.ErrorIs(t, errs[i], redlock.ErrHeld)
					continue
				}
				require.NoError(t, lease.Release(t.Context()))
			}
			time.Sleep(10 * time.Millisecond)
			w.gone("lock:" + name)
		}
		// Once a minute a connection check comes between, and shifts the race.
		require.GreaterOrEqual(t, splits, 40, "nearly every first round was a split vote")
	})
}

func TestACQ04_AnEvenNumberIsAFinding(t *testing.T) {
	virtual(t, 4, func(t *testing.T, w *world) {
		found := false
		for _, r := range w.client().Check(t.Context()) {
			for _, f := range r.Findings {
				found = found || f.Severity == redlock.Warning && f.What == "N = 4 is even: it survives no more losses than 3 would"
			}
		}
		require.True(t, found)
	})
	virtual(t, 2, func(t *testing.T, w *world) {
		w.nodes[1].Kill()
		_, err := w.client().TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "2 of 2 needed")
		require.ErrorContains(t, err, "1 failed") // the other is not waited for: it cannot change that
		require.ErrorContains(t, err, "mem1")
		time.Sleep(time.Second)
		w.holds("lock:x", "", 0)
	})
}

// A call whose context has ended asks nobody.
func TestACQ05_ACancelledContextSendsNothing(t *testing.T) {
	cancelled := func(t *testing.T, w *world) {
		t.Helper()
		c := w.client()
		w.warm(c)
		before := c.count(seam.Acquire)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, try := range []func(context.Context, string, ...redlock.LockOption) (*redlock.Lease, error){c.Acquire, c.TryAcquire} {
			lease, err := try(ctx, "x")
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, lease)
		}
		require.ErrorIs(t, c.Do(ctx, "x", func(context.Context) error { panic("it ran") }), context.Canceled)
		require.Equal(t, before, c.count(seam.Acquire))
		w.gone("lock:x")
	}
	virtual(t, 1, cancelled) // here the caller's own goroutine does the sending
	virtual(t, 3, cancelled)
}

// A call whose context ends while it asks has a lease and says so, or has an
// error and leaves nothing.
func TestACQ05_CancelledInTheMidstOfAnAttempt(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		c := w.client()
		require.NoError(t, c.held("warm").Release(t.Context()))
		var got, cut int
		for i := range 200 {
			w.first(3, func(n *memnode.Node) { n.Delay(time.Duration(i%21) * 100 * time.Microsecond) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			lease, err := c.TryAcquire(ctx, "x")
			if err == nil {
				got++
				require.NoError(t, lease.Err())
				synctest.Wait() // all three were asked
				w.holds("lock:x", lease.Token(), 0, 1, 2)
				require.NoError(t, lease.Release(t.Context()))
			} else {
				cut++
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Nil(t, lease)
			}
			cancel()
			time.Sleep(300 * time.Millisecond)
			w.gone("lock:x")
		}
		require.Greater(t, got, 50)
		require.Greater(t, cut, 50)
	})
}

// A key that is somebody's data is neither taken nor touched, and named.
func TestACQ06_AKeyThatIsNoLockIsNamed(t *testing.T) {
	servers := realServers(t)
	bare := overReal(t, servers, redlock.WithKeyPrefix(""), redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second))
	require.NoError(t, bare.Init(t.Context())) // before there are keys
	for _, s := range servers {
		require.NoError(t, s.admin.RPush(t.Context(), "orders", 1).Err())
		require.NoError(t, s.admin.Set(t.Context(), "user:1", "cached", 0).Err())
	}
	lease, err := bare.TryAcquire(t.Context(), "orders")
	require.Nil(t, lease)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.ErrorContains(t, err, "key orders is a list")
	require.ErrorContains(t, err, "WithKeyPrefix")
	_, err = bare.TryAcquire(t.Context(), "user:1")
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.ErrorContains(t, err, "key user:1 has no TTL")

	prefixed := overReal(t, servers)
	require.NoError(t, prefixed.Init(t.Context()))
	for _, name := range []string{"orders", "user:1"} {
		lease, err := prefixed.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	for _, s := range servers {
		require.Equal(t, []string{"1"}, s.admin.LRange(t.Context(), "orders", 0, -1).Val(), "untouched")
		require.Equal(t, "cached", s.admin.Get(t.Context(), "user:1").Val())
		require.Equal(t, time.Duration(-1), s.admin.PTTL(t.Context(), "user:1").Val())
	}
}

// Who did not get the lock has nothing to release, and disturbs nobody.
func TestACQ09_NoLeaseNoRelease(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		lease := b.held("x")
		synctest.Wait()
		none, err := a.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Nil(t, none)
		err = a.Do(t.Context(), "x", func(context.Context) error { panic("it ran") }, redlock.WithWait(0))
		require.ErrorIs(t, err, redlock.ErrHeld)
		time.Sleep(time.Minute)
		w.holds("lock:x", lease.Token(), 0, 1, 2)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}
