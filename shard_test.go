package redlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// groups makes Lockers over k new groups of three nodes.
func groups(t *testing.T, k int) (all []*redlock.Locker, nodes []*redlocktest.Nodes) {
	for i := range k {
		ns := redlocktest.NewNamedNodes(fmt.Sprintf("group%d-", i), 3)
		nodes = append(nodes, ns)
		all = append(all, ns.NewLocker(t))
	}
	return all, nodes
}

// homes says which of the groups each of many names belongs to.
func homes(t *testing.T, s *redlock.Sharded, groups []*redlock.Locker) []int {
	t.Helper()
	out := make([]int, 10_000)
	for i := range out {
		l, err := s.Group(fmt.Sprint("order:", i))
		require.NoError(t, err)
		out[i] = slices.Index(groups, l)
	}
	return out
}

func TestShardSpreadsEvenly(t *testing.T) {
	all, _ := groups(t, 4)
	count := make([]int, 4)
	for _, g := range homes(t, redlock.Shard(all...), all) {
		count[g]++
	}
	for _, n := range count {
		require.InDelta(t, 2500, n, 200, "%v", count)
	}
}

// TestShardDoesNotMindOrder has a second client that lists groups, and the nodes in
// them, the other way round.
func TestShardDoesNotMindOrder(t *testing.T) {
	all, nodes := groups(t, 5)
	var other []*redlock.Locker
	for _, ns := range nodes {
		list := ns.Nodes()
		slices.Reverse(list)
		l, err := redlock.New(list)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		other = append(other, l)
	}
	backwards := slices.Clone(other)
	slices.Reverse(backwards)
	require.Equal(t, homes(t, redlock.Shard(all...), all), homes(t, redlock.Shard(backwards...), other))
}

func TestShardMovesOnlyTheNewGroupsShare(t *testing.T) {
	all, _ := groups(t, 5)
	before, after := homes(t, redlock.Shard(all[:4]...), all), homes(t, redlock.Shard(all...), all)
	moved := 0
	for i := range before {
		if before[i] != after[i] {
			require.Equal(t, 4, after[i], "a name moved between old groups")
			moved++
		}
	}
	require.InDelta(t, 2000, moved, 200)
}

// TestShardsStandApart has one group without a majority: the names of the others
// are locked as before, for both of two clients.
func TestShardsStandApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := groups(t, 3)
		var twins []*redlock.Locker
		for _, ns := range nodes {
			twins = append(twins, ns.NewLocker(t))
		}
		s, twin := redlock.Shard(all...), redlock.Shard(twins[2], twins[0], twins[1])
		ctx := t.Context()
		require.NoError(t, s.Init(ctx))
		for i := range 3 {
			nodes[0].At(i).Kill()
		}
		seen := make(map[bool]int)
		for i := range 30 {
			name := fmt.Sprint("job-", i)
			home, err := s.Group(name)
			require.NoError(t, err)
			lease, err := s.TryAcquire(ctx, name)
			if seen[home == all[0]]++; home == all[0] {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				continue
			}
			require.NoError(t, err)
			_, err = twin.TryAcquire(ctx, name)
			require.ErrorIs(t, err, redlock.ErrHeld)
			status, err := twin.Inspect(ctx, name)
			require.NoError(t, err)
			require.Equal(t, lease.Token(), status.Token)
			require.NoError(t, twin.Break(ctx, name, lease.Token()))
			require.NoError(t, twin.Do(ctx, name, func(context.Context) error { return nil }))
			require.Error(t, lease.Release(ctx))
		}
		require.Len(t, seen, 2, "names of both kinds")
		reports := s.Check(ctx)
		require.Len(t, reports, 9)
		require.False(t, reports[0].OK)
		require.True(t, reports[8].OK)
		require.NoError(t, s.Close())
		_, err := s.Acquire(ctx, "job-1")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.NoError(t, twin.Close())
	})
}

func TestShardRefuses(t *testing.T) {
	all, nodes := groups(t, 2)
	for name, c := range map[string]struct {
		s    *redlock.Sharded
		want string
	}{
		"no group":           {redlock.Shard(), "give at least one Locker"},
		"nil":                {redlock.Shard(all[0], nil), "group 1"},
		"a group twice":      {redlock.Shard(all[0], all[1], all[0]), "is a server of group 0 too"},
		"a server in two":    {redlock.Shard(all[1], nodes[1].NewLocker(t)), "group1-0"},
		"of a nil one alone": {redlock.Shard(nil), "make it with New"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			_, acquire := c.s.Acquire(ctx, "x")
			_, try := c.s.TryAcquire(ctx, "x")
			_, inspect := c.s.Inspect(ctx, "x")
			do := c.s.Do(ctx, "x", func(context.Context) error { return nil })
			for _, err := range []error{acquire, try, inspect, do, c.s.Break(ctx, "x", "t"), c.s.Init(ctx), c.s.InitForce(ctx), c.s.Reseal(ctx)} {
				require.ErrorIs(t, err, redlock.ErrConfig)
				require.ErrorContains(t, err, c.want)
			}
			reports := c.s.Check(ctx)
			require.Len(t, reports, 1)
			require.False(t, reports[0].OK)
			require.NoError(t, c.s.Close())
		})
	}
}
