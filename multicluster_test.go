package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
)

// Several names as one lease on the three masters of a real Cluster.
func TestAcquireAllOnACluster(t *testing.T) {
	c := startCluster(t, 3, 0)
	opts := []Option{WithMaxTTL(2 * time.Second), WithTTL(2 * time.Second), WithFencing()}
	plain, pinned := overCluster(t, c, 3, opts...), overCluster(t, c, 3, append(opts, WithBucket("orders"))...)
	require.NoError(t, plain.Init(t.Context()))
	names := []string{nameInBucket(t, 3), nameInBucket(t, 40), "a", "b"}

	_, err := plain.AcquireAll(t.Context(), names)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, names[0])
	require.ErrorContains(t, err, names[1])
	require.Equal(t, 2, strings.Count(err.Error(), " bucket "), "it names both: %v", err)
	require.ErrorContains(t, err, "WithBucket")

	one, err := plain.Acquire(t.Context(), "a", WithBucket("orders"))
	require.NoError(t, err)
	_, err = pinned.AcquireAll(t.Context(), names, WithWait(100*time.Millisecond))
	require.ErrorIs(t, err, ErrHeld, "one of them is held")
	require.NoError(t, one.Release(t.Context()))

	all, err := pinned.AcquireAll(t.Context(), names, WithLabel("me"))
	require.NoError(t, err)
	require.Greater(t, all.Fence(), one.Fence())
	for _, name := range names {
		_, err := plain.TryAcquire(t.Context(), name, WithBucket("orders"))
		require.ErrorIs(t, err, ErrHeld)
		s, err := pinned.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, all.Token(), s.Token)
		require.Equal(t, "me", s.Label)
		s, err = plain.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Empty(t, s.Token, "the name's own bucket is another one")
	}
	require.NoError(t, all.Extend(t.Context(), 2*time.Second))
	require.NoError(t, all.Release(t.Context()))
	_, err = plain.AcquireAll(t.Context(), []string{"b", names[1]}, WithBucket("other\nline"))
	require.ErrorIs(t, err, ErrConfig)

	next, err := plain.AcquireAll(t.Context(), []string{"b", names[1]}, WithBucket("orders"))
	require.NoError(t, err, "free on all three at once")
	require.Greater(t, next.Fence(), all.Fence())
	require.NoError(t, pinned.Break(t.Context(), "b", next.Token()))
	require.Error(t, next.Release(t.Context()))
}

// What holds several names is never handed over, so a grant takes one number.
func TestAcquireAllTakesOneNumber(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		synctest.Wait()
		text, _, ok := mems[0].Get("redlock:f:lock:b")
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(all.Fence()), text, "what is stored is the one number")
		require.NoError(t, all.Release(t.Context()))
		var last Fence
		for range 20 { // and the counters' order holds between the two kinds
			require.NoError(t, l.DoAll(t.Context(), []string{"a", "x"}, func(ctx context.Context) error {
				lease, _ := FromContext(ctx)
				require.Greater(t, lease.Fence(), last)
				last = lease.Fence()
				return nil
			}))
			f := grant(t, l)
			require.Greater(t, f, last)
			last = f
		}
	})
}
