package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/seam"
)

func nested(t *testing.T, c *client, outer *redlock.Lease, opts ...redlock.LockOption) *redlock.Lease {
	t.Helper()
	inner, err := c.TryAcquire(outer.Context(), "x", append(opts, redlock.WithReentry())...)
	require.NoError(t, err)
	return inner
}

func TestReentryMustBeAskedFor(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		outer := a.held("x")
		_, err := a.Acquire(outer.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "WithReentry")
		require.NoError(t, a.Do(outer.Context(), "y", func(context.Context) error { return nil }), "another name is no matter")
		_, err = w.client().TryAcquire(outer.Context(), "x", redlock.WithReentry())
		require.ErrorIs(t, err, redlock.ErrHeld, "another Locker's lease is another's")
	})
}

// The last Release frees the name, whatever the order.
func TestReentryTheLastReleaseFrees(t *testing.T) {
	for name, order := range map[string][3]int{
		"inside out": {2, 1, 0}, "outside in": {0, 1, 2}, "any": {1, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				a := w.client()
				outer := a.held("x")
				synctest.Wait()
				acquires := a.count(seam.Acquire)
				inner := nested(t, a, outer)
				all := []*redlock.Lease{outer, inner, nested(t, a, inner)}
				require.Equal(t, acquires, a.count(seam.Acquire), "a nested lease asks nobody")
				for i, k := range order {
					le := all[k]
					ctx := le.Context()
					require.NoError(t, le.Err())
					require.Equal(t, outer.Token(), le.Token())
					_, _, held := w.nodes[0].Get("lock:x")
					require.True(t, held)
					require.NoError(t, le.Release(t.Context()))
					require.ErrorIs(t, le.Err(), redlock.ErrReleased)
					require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
					require.ErrorIs(t, le.Release(t.Context()), redlock.ErrReleased)
					require.ErrorIs(t, le.Extend(t.Context(), time.Second), redlock.ErrReleased)
					require.ErrorIs(t, context.Cause(le.Context()), redlock.ErrReleased)
					for _, other := range order[i+1:] {
						require.NoError(t, all[other].Err())
					}
				}
				synctest.Wait()
				w.gone("lock:x")
			})
		})
	}
}

// What a nested call asks for does not change the outer lease.
func TestReentryChangesNothingOfTheOuterLease(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		outer := a.held("x", redlock.WithTTL(4*time.Second), redlock.WithoutRenewal())
		until := outer.Until()
		for _, ttl := range []time.Duration{time.Second, 8 * time.Second} {
			inner := nested(t, a, outer, redlock.WithTTL(ttl), redlock.WithRenewal(), redlock.WithLabel("inner"))
			require.Equal(t, until, inner.Until())
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, inner.Release(t.Context()))
			require.Equal(t, until, outer.Until())
		}
		require.Zero(t, a.count(seam.Extend))
		for _, opt := range []redlock.LockOption{redlock.WithMaxHold(time.Second), redlock.WithMinHold(time.Second)} {
			_, err := a.Acquire(outer.Context(), "x", redlock.WithReentry(), opt)
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
		inner := nested(t, a, outer)
		require.NoError(t, inner.Extend(t.Context(), 8*time.Second))
		require.Equal(t, inner.Until(), outer.Until(), "there is one validity")
		require.True(t, outer.Until().After(until))
	})
}

func TestReentryALossEndsAllHandles(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		outer := a.held("x", redlock.WithTTL(time.Second))
		inner := nested(t, a, outer)
		octx, ictx := outer.Context(), inner.Context()
		for _, n := range w.nodes {
			n.Kill()
		}
		time.Sleep(time.Second)
		for _, ctx := range []context.Context{octx, ictx} {
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
		}
		require.ErrorIs(t, inner.Release(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, outer.Release(t.Context()), redlock.ErrLost)
	})
}

// Do nests, and its function's context carries the innermost lease that stands.
func TestReentryWithDo(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithReentry())
		boom := errors.New("boom")
		require.NoError(t, a.Do(t.Context(), "x", func(ctx context.Context) error {
			var inside context.Context
			err := a.Do(ctx, "x", func(ctx context.Context) error {
				inside = context.WithoutCancel(ctx)
				return boom
			})
			require.ErrorIs(t, err, boom)
			require.NoError(t, ctx.Err())
			// Under a nested lease that is over, the outer one still stands.
			return a.Do(inside, "x", func(context.Context) error { return nil })
		}))
		synctest.Wait()
		w.gone("lock:x")
	})
}

// Who waits in the same process gets the lease with the last Release.
func TestReentryAndHandOver(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		outer := a.held("x", redlock.WithReentry())
		inner := nested(t, a, outer)
		got := make(chan *redlock.Lease)
		go func() {
			lease, _ := a.Acquire(context.Background(), "x", redlock.WithReentry())
			got <- lease
		}()
		synctest.Wait()
		require.NoError(t, outer.Release(t.Context()))
		synctest.Wait()
		require.Empty(t, got)
		require.NoError(t, inner.Release(t.Context()))
		next := <-got
		require.Equal(t, outer.Token(), next.Token(), "it was handed over")
		for _, old := range []*redlock.Lease{outer, inner} {
			require.ErrorIs(t, old.Release(t.Context()), redlock.ErrReleased)
		}
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
	})
}

// A nested handle that was forgotten does not keep the name from being freed.
func TestReentryAForgottenHandle(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		outer := a.held("x")
		func() { nested(t, a, outer) }()
		for range 5 {
			runtime.GC()
			synctest.Wait()
		}
		require.NoError(t, outer.Release(t.Context()))
		time.Sleep(20 * time.Second)
		w.gone("lock:x")
	})
}
