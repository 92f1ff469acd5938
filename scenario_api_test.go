package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// Do releases strictly after the function has returned, so what is committed in
// it is committed under the lock; its context ends, with a cause, on loss.
func TestAPI01_TheReleaseFollowsTheCommit(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		require.NoError(t, a.Do(t.Context(), "x", func(context.Context) error {
			w.pass(time.Minute) // a long transaction, with its commit
			for i := range w.nodes {
				token, _, ok := w.nodes[i].Get("lock:x")
				require.True(t, ok && token != "", "still locked at the commit")
			}
			require.Zero(t, a.count(seam.Release))
			return nil
		}))
		w.gone("lock:x")

		var balance, lost atomic.Int64 // read, think, write: fifty times by five processes
		var wg sync.WaitGroup
		for range 5 {
			c := w.client()
			for range 10 {
				wg.Go(func() {
					require.NoError(t, c.Do(t.Context(), "account", func(context.Context) error {
						v := balance.Load()
						w.pass(time.Millisecond)
						if !balance.CompareAndSwap(v, v+1) {
							lost.Add(1)
						}
						return nil
					}))
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 50, balance.Load())
		require.Zero(t, lost.Load(), "no lost update")

		err := a.Do(t.Context(), "x", func(ctx context.Context) error {
			w.pass(time.Millisecond) // all three have it by now
			w.first(2, func(n *memnode.Node) { n.Delete("lock:x") })
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			return nil // the function did not notice: Do tells
		})
		require.ErrorIs(t, err, redlock.ErrLost)
	})
}

// Five that want to lead, while the key is deleted by hand every two seconds: at
// most one believes to lead beyond a renewal interval, and each deposed one is
// back in line.
func TestAPI02_TheDeposedStopAndComeBack(t *testing.T) {
	const ttl = 3 * time.Second
	virtual(t, 1, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		leads := map[int]time.Time{} // who believes to lead, since when
		terms := map[int]int{}
		var overlap time.Duration
		var wg sync.WaitGroup
		for id := range 5 {
			c := w.client(redlock.WithTTL(ttl))
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = c.Do(ctx, "leader", func(ctx context.Context) error {
						mu.Lock()
						began := time.Now()
						leads[id] = began
						terms[id]++
						mu.Unlock()
						<-ctx.Done()
						mu.Lock()
						delete(leads, id)
						for _, since := range leads { // they led beside us, until now
							overlap = max(overlap, time.Since(later(since, began)))
						}
						mu.Unlock()
						return ctx.Err()
					})
				}
			})
		}
		for range 30 {
			w.pass(2 * time.Second)
			w.nodes[0].Delete("lock:leader")
		}
		cancel()
		wg.Wait()
		require.LessOrEqual(t, overlap, ttl/3+100*time.Millisecond, "one renewal interval")
		total := 0
		for _, n := range terms {
			total += n
		}
		require.Greater(t, total, 15, "each deletion gives another term")
		again := 0
		for _, n := range terms {
			again = max(again, n)
		}
		require.Greater(t, again, 1, "the deposed come back: %v", terms)
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A job that fails, panics or is cancelled keeps nothing.
func TestAPI03_AFailedJobKeepsNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		boom := errors.New("boom")
		require.ErrorIs(t, a.Do(t.Context(), "job", func(context.Context) error { return boom }), boom)
		w.gone("lock:job")
		require.PanicsWithValue(t, "boom", func() {
			_ = a.Do(t.Context(), "job", func(context.Context) error { panic("boom") })
		})
		w.gone("lock:job")
		ctx, cancel := context.WithCancel(t.Context())
		err := a.Do(ctx, "job", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, redlock.ErrLost)
		w.gone("lock:job")
		require.NoError(t, a.held("job").Release(t.Context()))
	})
}

// Looking does not take: a hundred held locks survive Inspect and Check, and
// Break with a wrong token.
func TestAPI04_LookingHarmsNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		var leases []*redlock.Lease
		for i := range 100 {
			leases = append(leases, a.held(fmt.Sprint("job", i)))
		}
		for _, lease := range leases {
			s, err := b.Inspect(t.Context(), lease.Names()[0])
			require.NoError(t, err)
			require.True(t, s.Held)
			require.Error(t, b.Break(t.Context(), lease.Names()[0], "0123456789abcdef"))
		}
		for _, r := range b.Check(t.Context()) {
			require.True(t, r.OK, "%+v", r)
		}
		w.pass(time.Minute)
		for _, lease := range leases {
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release(t.Context()))
		}
	})
}
