package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Many callers in several processes, one node that dies and one that forgets: at
// no moment more than n of them hold a permit, and all have their turn.
func TestSemaphoreNeverMoreThanN(t *testing.T) {
	for _, n := range []int{1, 3, 20} {
		virtual(t, 5, func(t *testing.T, w *world) {
			var inside, most atomic.Int32
			var done sync.WaitGroup
			for range 3 {
				s := redlock.NewSemaphore(w.client().Locker, "pool", n)
				for range 10 {
					done.Go(func() {
						for range 3 {
							err := s.Do(t.Context(), func(ctx context.Context) error {
								now := inside.Add(1)
								defer inside.Add(-1)
								for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
								}
								time.Sleep(50 * time.Millisecond)
								return ctx.Err()
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			time.Sleep(20 * time.Millisecond)
			w.nodes[0].Kill()
			w.nodes[1].Forget()
			done.Wait()
			require.EqualValues(t, n, most.Load(), "all permits are used, and no more")
		})
	}
}

func TestSemaphoreTryAcquire(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := redlock.NewSemaphore(w.client().Locker, "pool", 2)
		b := redlock.NewSemaphore(w.client().Locker, "pool", 2)
		one, err := a.TryAcquire(t.Context())
		require.NoError(t, err)
		two, err := b.TryAcquire(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"pool#0", "pool#1"}, append(one.Names(), two.Names()...))
		_, err = a.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		q, ok := errors.AsType[*redlock.QuorumError](err)
		require.True(t, ok)
		require.Equal(t, "pool", q.Name)
		require.NoError(t, one.Release(t.Context()))
		_, err = b.TryAcquire(t.Context())
		require.NoError(t, err)
	})
}

// A permit that another process frees is taken at once, not at the next poll.
func TestSemaphoreIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, nodes := redlocktest.NewLocker(t, 3)
		a := redlock.NewSemaphore(locker, "pool", 2)
		b := redlock.NewSemaphore(nodes.NewLocker(t), "pool", 2)
		one, err := a.Acquire(t.Context())
		require.NoError(t, err)
		_, err = a.Acquire(t.Context())
		require.NoError(t, err)
		got := make(chan time.Time, 1)
		go func() {
			_, _ = b.Acquire(context.Background())
			got <- time.Now()
		}()
		time.Sleep(3 * time.Second)
		require.Empty(t, got)
		freed := time.Now()
		require.NoError(t, one.Release(t.Context()))
		require.Less(t, (<-got).Sub(freed), 50*time.Millisecond)
	})
}

func TestSemaphoreTheEndOfAWait(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		s := redlock.NewSemaphore(w.client().Locker, "pool", 1)
		_, err := s.Acquire(t.Context())
		require.NoError(t, err)
		begin := time.Now()
		_, err = s.Acquire(t.Context(), redlock.WithWait(5*time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the end of WithWait is no end of the context (P3)")
		require.InDelta(t, 5, time.Since(begin).Seconds(), 0.5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)
		for _, n := range w.nodes {
			n.Kill()
		}
		time.Sleep(time.Minute)
		_, err = s.TryAcquire(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestSemaphoreCloseEndsAWait(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		l, err := redlock.New(nodesOf(w))
		require.NoError(t, err)
		s := redlock.NewSemaphore(l, "pool", 1)
		_, err = s.Acquire(t.Context())
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := s.Acquire(context.Background())
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.Close())
		synctest.Wait()
		require.ErrorIs(t, <-ended, redlock.ErrClosed)
	})
}

func nodesOf(w *world) (nodes []redlock.Node) {
	for _, n := range w.nodes {
		nodes = append(nodes, redlock.NodeOver(n.Dialer()))
	}
	return nodes
}

func TestSemaphoreUnderAPermit(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		s := redlock.NewSemaphore(w.client().Locker, "pool", 2)
		one, err := s.Acquire(t.Context())
		require.NoError(t, err)
		two, err := s.Acquire(one.Context())
		require.NoError(t, err)
		require.NotEqual(t, one.Names(), two.Names())
		_, err = s.Acquire(two.Context())
		require.ErrorIs(t, err, redlock.ErrConfig, "nobody else could free one")
		again, err := s.Acquire(two.Context(), redlock.WithReentry())
		require.NoError(t, err)
		require.Contains(t, []string{one.Token(), two.Token()}, again.Token())
	})
}

func TestSemaphoreBadArguments(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		l := w.client().Locker
		for _, s := range []*redlock.Semaphore{
			redlock.NewSemaphore(l, "pool", 0), redlock.NewSemaphore(l, "pool", 129), redlock.NewSemaphore(l, "", 1),
			redlock.NewSemaphore(l, strings.Repeat("x", 511), 1), redlock.NewSemaphore(l, "a\nb", 1),
		} {
			_, err := s.Acquire(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorIs(t, s.Do(t.Context(), nil), redlock.ErrConfig)
		}
		_, err := redlock.NewSemaphore(l, "pool", 1).Acquire(t.Context(), nil)
		require.ErrorIs(t, err, redlock.ErrConfig)
	})
}

// Why a semaphore is n names: with a counter of n on each node, and a permit for
// whoever a majority lets in, more than n get in. Three nodes, n = 2: A is let in
// by nodes 0 and 1, B by 1 and 2, C by 0 and 2; no node let in more than two.
func TestSemaphoreOfCountersWouldLetTooManyIn(t *testing.T) {
	const n = 2
	var counters [3]int
	in := 0
	for _, asked := range [][]int{{0, 1}, {1, 2}, {0, 2}} {
		granted := 0
		for _, node := range asked {
			if counters[node] < n {
				counters[node]++
				granted++
			}
		}
		if granted > len(counters)/2 {
			in++
		}
	}
	require.Equal(t, 3, in)
	require.Equal(t, [3]int{n, n, n}, counters)
}
