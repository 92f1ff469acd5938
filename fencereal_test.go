package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// Fences rise while one real server after the other restarts empty, each after the
// quarantine of the one before.
func TestFenceRisesOverRestarts(t *testing.T) {
	servers := startServers(t, 3, redisproc.Options{})
	opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second), WithFencing()}
	a, b := overServers(t, servers, opts...), overServers(t, servers, opts...)
	require.NoError(t, a.Init(t.Context()))
	last, grants := Fence(0), 0
	for _, s := range servers[:2] {
		require.NoError(t, s.Restart(t.Context(), true))
		for began := time.Now(); time.Since(began) < quarantineFor(time.Second)+500*time.Millisecond; {
			for _, l := range []*Locker{a, b} {
				f := grant(t, l)
				require.Greater(t, f, last)
				last = f
				grants++
			}
		}
	}
	t.Log(grants, "grants")
	require.Greater(t, grants, 20)
}

func BenchmarkFence(b *testing.B) {
	servers := startServers(b, 3, redisproc.Options{})
	l := overServers(b, servers)
	require.NoError(b, l.Init(b.Context()))
	for name, opts := range map[string][]LockOption{"plain": nil, "fenced": {WithFencing()}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				lease, err := l.TryAcquire(b.Context(), name, opts...)
				if err == nil {
					err = lease.Release(b.Context())
				}
				require.NoError(b, err)
			}
		})
	}
}
