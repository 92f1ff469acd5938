package cli

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// exact demands the story that the demo tells.
func exact(t *testing.T, r said) demoJSON {
	t.Helper()
	require.Equal(t, 0, r.code, r.err)
	var out demoJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Equal(t, out.Stock, out.Sold)
	require.Zero(t, out.Overlaps)
	require.Positive(t, out.OversoldWithoutLock, "the mutex has to fail for the story")
	require.Len(t, out.Faults, 2, "%+v", out.Faults)
	require.Less(t, out.Seconds, 30.0)
	return out
}

func TestDemoInMemory(t *testing.T) {
	for seed := range 5 {
		exact(t, call(t, nil, "--json", "demo", "--seed", strconv.Itoa(seed)))
	}
	out := exact(t, call(t, nil, "--json", "demo", "--buyers", "40", "--stock", "10", "--products", "1"))
	require.Equal(t, 10, out.Sold)
	r := call(t, nil, "demo")
	require.Contains(t, r.out, "OVERSOLD")
	require.Contains(t, r.out, "exact")
}

func TestDemoSelfHosted(t *testing.T) {
	newFleet(t) // only to fail or skip where there is no redis-server
	exact(t, call(t, nil, "--json", "demo", "--self-hosted", "5"))
}

func TestDemoOnTheirNodesLeavesNothing(t *testing.T) {
	f := newFleet(t)
	exact(t, call(t, f.env, "--json", "demo"))
	for _, s := range f.servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		keys, err := c.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		require.Equal(t, []string{"redlock:seal:lock:"}, keys, "their seal, and nothing of the demo's")
		require.NoError(t, c.Close())
	}
}
