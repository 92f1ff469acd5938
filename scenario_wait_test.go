package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// always waits as long before each round.
func always(d time.Duration) redlock.Backoff { return func(int) time.Duration { return d } }

// One silent node does not make the others' verdict late.
func TestTIM02_OneSilentNodeCostsNobodyTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*memnode.Node)
	}{
		{"hung", (*memnode.Node).Hang},
		{"answers lost", func(n *memnode.Node) { n.LoseReplies(true) }},
		{"dead", (*memnode.Node).Kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, w *world) {
				l := w.client()
				w.first(4, func(n *memnode.Node) { n.Delay(2 * time.Millisecond) })
				c.fault(w.nodes[4])
				var locks, unlocks []time.Duration
				for range 100 {
					var lease *redlock.Lease
					locks = append(locks, took(func() { lease = l.held("x") }))
					unlocks = append(unlocks, took(func() { require.NoError(t, lease.Release(t.Context())) }))
				}
				for _, all := range [][]time.Duration{locks, unlocks} {
					slices.Sort(all)
					require.LessOrEqual(t, all[94], 60*time.Millisecond, "p95")
					require.LessOrEqual(t, all[99], 250*time.Millisecond, "the node timeout")
				}
				w.nodes[4].Resume()
				w.nodes[4].LoseReplies(false)
				w.nodes[4].Start()
				time.Sleep(time.Second)
				w.gone("lock:x")
			})
		})
	}
}

// The node timeout neither grows with a huge TTL nor shrinks below what a
// network needs.
func TestTIM03_TheNodeTimeoutIsBounded(t *testing.T) {
	const huge = 10 * time.Hour
	virtual(t, 3, func(t *testing.T, w *world) {
		w.nodes[2].Hang()
		long := w.client(redlock.WithMaxTTL(huge), redlock.WithTTL(huge))
		var lease *redlock.Lease
		require.LessOrEqual(t, took(func() { lease = long.held("x") }), time.Second)
		require.LessOrEqual(t, took(func() { require.NoError(t, lease.Release(t.Context())) }), time.Second)
		w.nodes[1].Hang() // and now nobody can decide
		require.LessOrEqual(t, took(func() {
			_, err := long.TryAcquire(t.Context(), "x")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}), time.Second)
		w.first(3, (*memnode.Node).Resume)
		time.Sleep(time.Second)

		w.first(3, func(n *memnode.Node) { n.Delay(8 * time.Millisecond) })
		for _, ttl := range []time.Duration{200 * time.Millisecond, 100 * time.Millisecond} {
			short := w.client(redlock.WithMaxTTL(huge), redlock.WithTTL(ttl))
			if _, err := short.TryAcquire(t.Context(), "first"); err != nil {
				// Three trips (dial, connection check, SET) are more than one timeout.
				require.ErrorContains(t, err, "no answer within the node timeout")
			}
			time.Sleep(time.Second)
			lease, err := short.TryAcquire(t.Context(), "x")
			require.NoError(t, err, "TTL %v", ttl)
			require.NoError(t, lease.Release(t.Context()))
		}
		tiny := w.client(redlock.WithMaxTTL(huge), redlock.WithTTL(20*time.Millisecond)) // node timeout 5 ms: the floor
		_, err := tiny.Acquire(t.Context(), "x", redlock.WithWait(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrHeld)
		w.first(3, func(n *memnode.Node) { n.Delay(0) })
	}, redlock.WithMaxTTL(huge))
}

// A wait ends when it is to end, however long the back-off.
func TestTIM05_AWaitEndsInTheMidstOfABackoff(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		b, a := w.client(), w.client(redlock.WithBackoff(always(5*time.Second)))
		lease := b.held("x")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		took := func(ctx context.Context, opts ...redlock.LockOption) (time.Duration, error) {
			start := time.Now()
			_, err := a.Acquire(ctx, "x", opts...)
			return time.Since(start), err
		}
		d, err := took(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.LessOrEqual(t, d, 250*time.Millisecond)

		d, err = took(t.Context(), redlock.WithWait(0))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.LessOrEqual(t, d, 50*time.Millisecond)

		d, err = took(t.Context(), redlock.WithWait(time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.GreaterOrEqual(t, d, 950*time.Millisecond)
		require.LessOrEqual(t, d, 1100*time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A wait ends in time whatever the nodes do: a round that is out then may still
// win, which takes it one node timeout at most.
func TestTIM05_AWaitEndsWhateverTheNodesDo(t *testing.T) {
	for name, f := range map[string]func(*memnode.Node){
		"slow":         func(n *memnode.Node) { n.Delay(200 * time.Millisecond) },
		"hung":         (*memnode.Node).Hang,
		"answers lost": func(n *memnode.Node) { n.LoseReplies(true) },
		"dead":         (*memnode.Node).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				lease := w.client().held("x")
				a := w.client()
				w.warm(a)
				w.first(3, f)
				for _, wait := range []time.Duration{100 * time.Millisecond, time.Second, 1300 * time.Millisecond} {
					for range 10 {
						var err error
						d := took(func() { _, err = a.Acquire(t.Context(), "x", redlock.WithWait(wait)) })
						require.Error(t, err)
						require.GreaterOrEqual(t, d, wait)
						require.LessOrEqual(t, d, wait+250*time.Millisecond, "%v", err)
					}
				}
				w.first(3, func(n *memnode.Node) { n.Resume(); n.LoseReplies(false); n.Delay(0) })
				_ = lease.Release(t.Context())
			})
		})
	}
}

// The TTL is no limit of the wait.
func TestTIM06_WaitingLongerThanTheTTL(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		lease := w.client().held("x")
		time.AfterFunc(4*time.Second, func() { _ = lease.Release(context.Background()) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		got, err := w.client().Acquire(ctx, "x", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 4*time.Second)
		require.LessOrEqual(t, time.Since(start), 4600*time.Millisecond, "one back-off after the release")
		require.GreaterOrEqual(t, time.Until(got.Until()), 900*time.Millisecond, "a fresh, full TTL")
		require.NoError(t, got.Release(t.Context()))
	})
}

// Acquire waits as a mutex does; TryAcquire does not.
func TestTIM07_TheDefaultWaitHasNoEnd(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		lease := w.client().held("x")
		time.AfterFunc(15*time.Second, func() { _ = lease.Release(context.Background()) })
		synctest.Wait() // all three have it
		a := w.client()
		require.Zero(t, took(func() {
			_, err := a.TryAcquire(context.Background(), "x")
			require.ErrorIs(t, err, redlock.ErrHeld)
		}))
		start := time.Now()
		got, err := a.Acquire(context.Background(), "x")
		require.NoError(t, err)
		require.InDelta(t, 15.3, time.Since(start).Seconds(), 0.31)
		require.NoError(t, got.Release(t.Context()))
	})
}

// "No wait" is one round, "for ever" is until the context ends, and nonsense is
// refused.
func TestTIM08_ZeroForeverAndNonsense(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		b, a := w.client(), w.client()
		lease := b.held("x")
		w.warm(a)
		before := a.count(seam.Acquire)
		_, err := a.Acquire(t.Context(), "x", redlock.WithWait(0))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Equal(t, 3, a.count(seam.Acquire)-before, "one SET per node")
		_, err = a.Acquire(t.Context(), "x", redlock.WithWait(1))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Equal(t, 6, a.count(seam.Acquire)-before, "the shortest wait is one round, too")

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		require.Equal(t, 5*time.Minute, took(func() { _, err = a.Acquire(ctx, "x", redlock.WithWait(redlock.Forever)) }))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)

		sent := a.count(seam.Acquire)
		for _, d := range []time.Duration{-1, -2, -time.Hour} {
			_, err = a.Acquire(t.Context(), "x", redlock.WithWait(d))
			require.ErrorIs(t, err, redlock.ErrConfig)
			_, err = redlock.New([]redlock.Node{redlock.NodeOver(w.nodes[0].Dialer())}, redlock.WithWait(d))
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
		require.Equal(t, sent, a.count(seam.Acquire))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A wait keeps nothing of its failed rounds.
func TestTIM09_AnEndlessWaitKeepsNothing(t *testing.T) {
	virtual(t, 1, func(t *testing.T, w *world) {
		w.deaf = true // else it would poll once a second
		lease := w.client().held("x")
		a := w.client(redlock.WithBackoff(always(5 * time.Millisecond)))
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := a.Acquire(ctx, "x")
			done <- err
		}()
		time.Sleep(time.Minute) // what is allocated once is
		before := heapInUse()
		time.Sleep(2 * time.Minute)
		after := heapInUse()
		require.Less(t, after, before+1<<20)
		err := <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Less(t, len(err.Error()), 500, "the last round, not every one")
		require.Greater(t, a.count(seam.Acquire), 40_000)
		require.NoError(t, lease.Release(t.Context()))
	})
	virtual(t, 3, func(t *testing.T, w *world) {
		w.first(2, (*memnode.Node).Kill)
		_, err := w.client().Acquire(t.Context(), "x", redlock.WithWait(time.Minute))
		q, ok := errors.AsType[*redlock.QuorumError](err)
		require.True(t, ok)
		require.Len(t, q.Nodes.Errors, 2, "one for each node that failed in the last round")
	})
}

// heapInUse is what is reachable.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a sync.Pool keeps survives the first
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TryAcquire is one round, whatever the Locker's default.
func TestTIM10_TryAcquireIsOneRound(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		lease := w.client().held("x")
		a := w.client(redlock.WithWait(time.Hour), redlock.WithBackoff(always(0)))
		w.warm(a)
		before := a.count(seam.Acquire)
		require.LessOrEqual(t, took(func() {
			_, err := a.TryAcquire(t.Context(), "x", redlock.WithWait(time.Hour))
			require.ErrorIs(t, err, redlock.ErrHeld)
		}), 50*time.Millisecond)
		require.Equal(t, 3, a.count(seam.Acquire)-before)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A crowd of waiters takes nothing from the holder that it needs to renew.
func TestTIM11_TwoThousandWaitersDoNotStarveTheHolder(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		w.first(3, func(n *memnode.Node) { n.Delay(time.Millisecond) })
		crowd := newCrowd()
		l := w.client(crowd.hooks())
		lease := l.held("x", redlock.WithTTL(time.Second))
		crowd.join(t, l.Locker, 2000)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		require.Less(t, l.count(seam.Acquire), 3*60*100, "they queue up in the process instead of all asking the nodes")
		require.LessOrEqual(t, took(func() { require.NoError(t, lease.Release(t.Context())) }), 200*time.Millisecond)
		crowd.judge(t, 150)
	})
}

// crowd are many who wait for a name that they do not get, and what happens to
// its holder meanwhile.
type crowd struct {
	mu       sync.Mutex
	renewals []redlock.RenewEvent
	lost     int
	wg       sync.WaitGroup
	cancel   context.CancelFunc
}

func newCrowd() *crowd { return &crowd{} }

func (c *crowd) hooks() redlock.Option {
	return redlock.WithHooks(redlock.Hooks{
		Renewed: func(e redlock.RenewEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.renewals = append(c.renewals, e)
		},
		Lost: func(redlock.LostEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lost++
		},
	})
}

// join lets n wait until they are judged. Who gets the name gives it back.
func (c *crowd) join(t *testing.T, l *redlock.Locker, n int) {
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	for range n {
		c.wg.Go(func() {
			if lease, err := l.Acquire(ctx, "x", redlock.WithTTL(time.Second)); err == nil {
				_ = lease.Release(ctx)
			}
		})
	}
	t.Cleanup(func() {
		c.cancel()
		c.wg.Wait()
	})
}

// judge ends the wait and looks at what happened to the holder.
func (c *crowd) judge(t *testing.T, renewals int) {
	t.Helper()
	c.cancel()
	c.wg.Wait()
	c.mu.Lock()
	lost, all := c.lost, slices.Clone(c.renewals)
	c.mu.Unlock()
	require.Zero(t, lost)
	require.GreaterOrEqual(t, len(all), renewals)
	for _, e := range all {
		require.NoError(t, e.Err)
		require.Less(t, e.Took, time.Second/3)
	}
}
