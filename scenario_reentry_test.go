package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// Nested leases have one renewal among them, at the pace of the outer one, and
// none when all are released.
func TestEXT13_NestedLeasesLeaveNoRenewalBehind(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithReentry())
		outer := a.held("x", redlock.WithTTL(3*time.Second))
		until := outer.Until()
		all := []*redlock.Lease{outer}
		for _, ttl := range []time.Duration{time.Second, 10 * time.Second} {
			inner, err := a.Acquire(all[len(all)-1].Context(), "x", redlock.WithTTL(ttl))
			require.NoError(t, err)
			require.Equal(t, until, outer.Until(), "a nested TTL of %v changes nothing", ttl)
			all = append(all, inner)
		}
		w.pass(30500 * time.Millisecond)
		require.InDelta(t, 3*30, a.count(seam.Extend), 6, "one extend per second and node")
		for _, lease := range all {
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release(t.Context()))
		}
		synctest.Wait()
		sent := a.count(seam.Extend)
		w.pass(time.Hour)
		require.Equal(t, sent, a.count(seam.Extend))
		w.gone("lock:x")
	})
}

// An acquire of unknown outcome does not count as a hold: locked once and
// released once the name is free.
func TestRE01_AnAmbiguousAcquireIsNoSecondHold(t *testing.T) {
	for name, c := range map[string]struct{ begin, end func(*memnode.Node) }{
		"paused":       {(*memnode.Node).Hang, (*memnode.Node).Resume},
		"answers lost": {func(n *memnode.Node) { n.LoseReplies(true) }, func(n *memnode.Node) { n.LoseReplies(false) }},
		"slow":         {func(n *memnode.Node) { n.Delay(400 * time.Millisecond) }, func(n *memnode.Node) { n.Delay(0) }},
	} {
		for _, nodes := range []int{1, 2, 3} { // that are in trouble
			t.Run(name, func(t *testing.T) {
				virtual(t, 3, func(t *testing.T, w *world) {
					a := w.client(redlock.WithReentry()) // node timeout 250 ms
					w.warm(a)
					w.first(nodes, c.begin)
					time.AfterFunc(400*time.Millisecond, func() { w.first(nodes, c.end) })
					lease := a.held("x")
					require.NoError(t, lease.Release(t.Context()))
					w.pass(2 * time.Second) // the last probe of a node that was silent
					w.gone("lock:x")
					got := w.client().held("x", redlock.WithWait(0))
					require.NoError(t, got.Release(t.Context()))
				})
			})
		}
	}
}

// A second lock of the same name by the same client waits as anybody's would, or
// is refused at once where it would wait for itself. It touches the first lease
// in neither case.
func TestRE02_TheSecondLockLeavesTheFirstAlone(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		first := a.held("x")
		for _, opts := range [][]redlock.LockOption{nil, {redlock.WithReentry()}} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			start := time.Now()
			second, err := a.Acquire(ctx, "x", opts...)
			require.Equal(t, 300*time.Millisecond, time.Since(start))
			require.Nil(t, second)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrHeld)
			cancel()
			_, err = a.TryAcquire(t.Context(), "x", opts...)
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		require.Zero(t, took(func() {
			_, err := a.Acquire(first.Context(), "x")
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.NotErrorIs(t, err, redlock.ErrHeld)
		}))
		w.pass(time.Second)
		w.holds("lock:x", first.Token(), 0, 1, 2)
		require.NoError(t, first.Err())
		require.NoError(t, first.Release(t.Context()))
		w.gone("lock:x")
	})
}

// Several names are all locked or none: nothing stays of a try that ended, and
// nothing renews it.
func TestML01_NoPartOfALockStays(t *testing.T) {
	names := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		try  func(ctx context.Context, w *world, a *client) error
		want error
	}{
		"the wait is up": {func(ctx context.Context, _ *world, a *client) error {
			_, err := a.AcquireAll(ctx, names, redlock.WithWait(500*time.Millisecond))
			return err
		}, redlock.ErrHeld},
		"cancelled midway": {func(ctx context.Context, _ *world, a *client) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(500*time.Microsecond, cancel) // the nodes take 1 ms
			_, err := a.AcquireAll(ctx, names)
			return err
		}, context.Canceled},
		"a node stops midway": {func(ctx context.Context, w *world, a *client) error {
			time.AfterFunc(500*time.Microsecond, w.nodes[1].Hang)
			time.AfterFunc(600*time.Millisecond, w.nodes[1].Resume)
			_, err := a.AcquireAll(ctx, names, redlock.WithWait(500*time.Millisecond))
			return err
		}, redlock.ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				theirs, a := w.client().held("c"), w.client()
				w.warm(a)
				require.ErrorIs(t, c.try(t.Context(), w, a), c.want)
				w.pass(300 * time.Millisecond)
				w.gone("lock:a")
				w.gone("lock:b")
				w.pass(time.Minute)
				require.Zero(t, a.count(seam.Extend))
				w.holds("lock:c", theirs.Token(), 0, 1, 2)
				lease, err := w.client().AcquireAll(t.Context(), names[:2], redlock.WithWait(0))
				require.NoError(t, err)
				require.NoError(t, lease.Release(t.Context()))
				require.NoError(t, theirs.Release(t.Context()))
			})
		})
	}
}

// Two clients that name the same in another order do not wait for each other for
// ever.
func TestML01_AnyOrderOfNames(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		w.first(3, func(n *memnode.Node) { n.Delay(time.Millisecond) })
		inside, most := 0, 0
		results := make(chan error)
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			c := w.client()
			go func() {
				var all error
				for range 1000 {
					all = errors.Join(all, c.DoAll(t.Context(), names, func(context.Context) error {
						inside++ // the race detector looks, too
						most = max(most, inside)
						inside--
						return nil
					}))
				}
				results <- all
			}()
		}
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		require.Equal(t, 1, most)
		w.pass(time.Second)
		w.gone("lock:a")
		w.gone("lock:b")
	})
}
