package redlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShardWeightNeverChanges has values: two versions of this library that differ
// here would grant one name in two groups.
func TestShardWeightNeverChanges(t *testing.T) {
	seed := shardSeed([]string{"tcp 10.0.0.2:6379", "tcp 10.0.0.1:6379", "tcp 10.0.0.3:6379"})
	require.Equal(t, seed, shardSeed([]string{"tcp 10.0.0.3:6379", "tcp 10.0.0.2:6379", "tcp 10.0.0.1:6379"}))
	require.Equal(t, uint64(0xaf158147ec5471d0), seed)
	require.Equal(t, uint64(0x7a5c540131d1a322), shardWeight(seed, "order:1"))
	require.Equal(t, uint64(0x8264a9fa11d9c514), shardWeight(seed, "재고:7"))
}
