package redlock

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// startServers starts real redis-servers. Where the gate runs, a missing one is
// a failure.
func startServers(tb testing.TB, n int, opt redisproc.Options) []*redisproc.Server {
	tb.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	servers, err := redisproc.StartN(context.Background(), n, opt)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		for _, s := range servers {
			require.NoError(tb, s.Close())
		}
	})
	return servers
}

// overServers makes a Locker over real servers, initialised.
func overServers(tb testing.TB, servers []*redisproc.Server, opts ...Option) *Locker {
	tb.Helper()
	var nodes []Node
	for _, s := range servers {
		nodes = append(nodes, Master(&redis.Options{Addr: s.Addr()}))
	}
	l, err := New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func TestRealLifeCycle(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		servers := startServers(t, n, redisproc.Options{})
		l := overServers(t, servers)
		require.NoError(t, l.Init(t.Context()))
		lease, err := l.Acquire(t.Context(), "x", WithLabel("me"))
		require.NoError(t, err)
		s, err := l.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.True(t, s.Held)
		require.Equal(t, lease.Token(), s.Token)
		require.Equal(t, "me", s.Label)
		_, err = l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
		require.NoError(t, lease.Release(t.Context()))
		require.ErrorIs(t, lease.Release(t.Context()), ErrReleased)
		for _, r := range l.Check(t.Context()) {
			require.True(t, r.OK, "%+v", r)
		}
	}
}
