package attack

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAScheduleIsAFunctionOfItsSeed(t *testing.T) {
	for _, p := range []Profile{Assume, Beyond} {
		c := Config{Nodes: 5, Profile: p}
		first := Schedule(1, c)
		require.NotEqual(t, first, Schedule(2, c))
		c.Progress = func(Snapshot) {}
		require.Equal(t, first, Schedule(1, c), "and of what it is made for")
	}
}

// forgetting are the kinds after which a node has to abstain.
var forgetting = []Kind{KillEmpty, KillAOF, FlushAll, ReplicaNowhere, ReplicaPeer}

func TestAssumeBreaksAMinorityAtATime(t *testing.T) {
	for seed := range uint64(200) {
		c := Config{Nodes: 3 + int(seed%5), For: 90 * time.Second}.withDefaults()
		faults := Schedule(seed, c)
		require.True(t, slices.IsSortedFunc(faults, func(a, b Fault) int { return int(a.At - b.At) }))
		for i, f := range faults {
			require.LessOrEqual(t, f.At+f.For, c.For-c.Quiet, "%+v is undone before the quiet part", f)
			if len(f.Nodes) == 0 {
				require.Contains(t, []Kind{PauseClient, KillClient}, f.Kind)
				require.Less(t, f.Client, c.Clients)
				continue
			}
			require.Len(t, f.Nodes, 1)
			least := f.For
			if slices.Contains(forgetting, f.Kind) {
				least += quarantine(c.TTL)
			}
			require.Greater(t, f.Faulty, least, "%+v counts until it is sound again", f)
			if f.Kind == KillAOF {
				require.NotEqual(t, noFile, persistence(f.Nodes[0]))
			}
			if f.Kind == ReplicaPeer {
				require.NotEqual(t, f.Nodes[0], f.Peer)
			}
			faulty := []int{f.Nodes[0]}
			for _, e := range faults[:i] {
				if len(e.Nodes) > 0 && e.At+e.Faulty > f.At {
					require.NotContains(t, faulty, e.Nodes[0], "hit again before it is sound")
					faulty = append(faulty, e.Nodes[0])
				}
			}
			require.LessOrEqual(t, len(faulty), minority(c.Nodes), "seed %d at %v", seed, f.At)
		}
	}
}

func TestEveryKindOccurs(t *testing.T) {
	seen := make(map[Kind]int)
	for seed := range uint64(20) {
		faults := Schedule(seed, Config{Nodes: 5})
		require.Greater(t, len(faults), 20, "seed %d", seed)
		for _, f := range faults {
			seen[f.Kind]++
		}
	}
	for _, k := range nodeTraits {
		require.Positive(t, seen[k.kind], k.kind)
	}
	require.Positive(t, seen[PauseClient])
	require.Positive(t, seen[KillClient])
	require.Zero(t, seen[DeleteKeys])
}

func TestTheirNodesAreOnlyCutOff(t *testing.T) {
	for seed := range uint64(50) {
		for _, f := range Schedule(seed, Config{URLs: []string{"a:1", "b:1", "c:1"}}) {
			require.NotEqual(t, KillClient, f.Kind)
			i := slices.IndexFunc(nodeTraits, func(k trait) bool { return k.kind == f.Kind })
			require.True(t, f.Kind == PauseClient || i >= 0 && !nodeTraits[i].own, f.Kind)
		}
	}
}

func TestBeyondBreaksMajorities(t *testing.T) {
	faults := Schedule(1, Config{Nodes: 5, Profile: Beyond, For: 15 * time.Second})
	kinds := make(map[Kind]bool)
	for _, f := range faults {
		if len(f.Nodes) > 0 {
			require.Len(t, f.Nodes, 3)
			kinds[f.Kind] = true
		}
	}
	require.True(t, kinds[KillEmpty] && kinds[DeleteKeys] && kinds[FlushAll], kinds)
}
