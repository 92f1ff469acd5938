package redisproc

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// offBy is how far a server's clock is before the machine's.
func offBy(t *testing.T, c *redis.Client) time.Duration {
	t.Helper()
	theirs, err := c.Time(t.Context()).Result()
	require.NoError(t, err)
	return time.Until(theirs)
}

func TestAClockOfItsOwn(t *testing.T) {
	needRedis(t)
	clocks, err := NewClocks(t.Context(), t.TempDir())
	require.NoError(t, err, "the race detector needs a C compiler too")
	clock, err := clocks.New()
	require.NoError(t, err)
	s, err := Start(t.Context(), Options{Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = c.Close() })

	require.InDelta(t, 0, offBy(t, c).Seconds(), 1)
	require.NoError(t, c.Set(t.Context(), "k", "v", 10*time.Second).Err())
	require.NoError(t, clock.Set(time.Minute, 1))
	require.Eventually(t, func() bool { return c.Exists(t.Context(), "k").Val() == 0 }, 5*time.Second, 5*time.Millisecond,
		"a step forward ends a key")
	require.InDelta(t, 60, offBy(t, c).Seconds(), 1)
	require.NoError(t, clock.Set(-time.Minute, 1))
	require.Eventually(t, func() bool { return offBy(t, c) < -50*time.Second }, 5*time.Second, 5*time.Millisecond)

	// Five times as fast is no step: the offset stays about what it was, and grows.
	require.NoError(t, clock.Set(0, 1))
	require.Eventually(t, func() bool { return offBy(t, c) > -time.Second }, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, clock.Set(0, 5))
	require.Eventually(t, func() bool { return offBy(t, c) > 200*time.Millisecond }, 5*time.Second, 5*time.Millisecond)
	require.Less(t, offBy(t, c), 50*time.Second)

	require.NoError(t, s.Restart(t.Context(), true))
	require.NoError(t, clock.Set(time.Hour, 1))
	require.Eventually(t, func() bool { return offBy(t, c) > 50*time.Minute }, 5*time.Second, 5*time.Millisecond,
		"after a restart too")
}
