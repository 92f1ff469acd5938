package redisproc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClusterFailsOverAndMovesSlots(t *testing.T) {
	c, err := StartCluster(t.Context(), 3, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Len(t, c.Addrs(), 6)
	require.Same(t, c.Masters[1], c.Owner(t.Context(), 6000))

	// "hello" lies in slot 866, "foo" in 12182, "x{bar}" in 5061.
	require.NoError(t, tell(t.Context(), c.Masters[2], "set", "foo", "y", "px", 60_000))
	var steps []string
	require.NoError(t, c.Migrate(t.Context(), 12182, c.Masters[2], c.Masters[1], func(s string) { steps = append(steps, s) }))
	require.Equal(t, []string{"begun", "moved"}, steps)
	require.Same(t, c.Masters[1], c.Owner(t.Context(), 12182))
	got, err := query(t.Context(), c.Masters[1], "get", "foo")
	require.NoError(t, err)
	require.Equal(t, "y", got)
	require.NoError(t, c.Settled(t.Context()))

	require.NoError(t, c.Failover(t.Context(), c.Replicas[0][0]))
	require.Same(t, c.Replicas[0][0], c.Owner(t.Context(), 866))

	start := time.Now()
	c.Masters[2].Kill()
	require.NoError(t, untilFine(t.Context(), func() error {
		return tell(t.Context(), c.Replicas[2][0], "set", "{foobar}", "y")
	}))
	t.Log("a master was replaced after", time.Since(start))
}
