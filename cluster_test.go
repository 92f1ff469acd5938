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

// startCluster starts a real Cluster.
func startCluster(tb testing.TB, masters, replicas int, args ...string) *redisproc.Cluster {
	tb.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	c, err := redisproc.StartCluster(context.Background(), masters, replicas, args...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// overCluster makes a Locker with votes on a Cluster, known by one of its nodes.
func overCluster(tb testing.TB, c *redisproc.Cluster, votes int, opts ...Option) *Locker {
	tb.Helper()
	l, err := New(Cluster(&redis.ClusterOptions{Addrs: []string{c.Masters[0].Addr(), c.Masters[1].Addr()}}, votes), opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func TestClusterLifeCycle(t *testing.T) {
	c := startCluster(t, 3, 0)
	l := overCluster(t, c, 3)
	require.NoError(t, l.Init(t.Context()))
	require.NoError(t, l.Init(t.Context()), "again, on buckets that are all sealed")
	for _, name := range []string{"x", "a{b}c", "{}", "{{q}}", "é", "two words", "zzz"} {
		lease, err := l.Acquire(t.Context(), name, WithLabel("me"))
		require.NoError(t, err, name)
		_, err = l.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, ErrHeld)
		s, err := l.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.True(t, s.Held)
		require.Equal(t, lease.Token(), s.Token)
		require.Equal(t, "me", s.Label)
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
		require.NoError(t, lease.Release(t.Context()))
		require.ErrorIs(t, lease.Release(t.Context()), ErrReleased)
	}
	lease, err := l.Acquire(t.Context(), "broken")
	require.NoError(t, err)
	require.NoError(t, l.Break(t.Context(), "broken", lease.Token()))
	require.Error(t, lease.Release(t.Context()))
	for _, r := range l.Check(t.Context()) {
		require.True(t, r.OK, "%+v", r)
	}
}

// takenOver is hazard H11 on real servers: a replica that lacks a lock takes its
// master's place under live connections. What a second client got is returned.
func takenOver(t *testing.T, m mutant) error {
	t.Helper()
	c := startCluster(t, 3, 1)
	opts := []Option{WithMaxTTL(2 * time.Second), WithTTL(2 * time.Second), withMutant(m)}
	a, b := lagged(overCluster(t, c, 1, opts...), shortLag), lagged(overCluster(t, c, 1, opts...), shortLag)
	require.NoError(t, a.Init(t.Context()))
	name := nameInBucket(t, 5)
	require.NoError(t, b.Do(t.Context(), name, func(context.Context) error { return nil }))
	old := redis.NewClient(&redis.Options{Addr: c.Masters[0].Addr()})
	heir := redis.NewClient(&redis.Options{Addr: c.Replicas[0][0].Addr()})
	defer old.Close()
	defer heir.Close()
	// The replica loses its link and cannot log in again.
	require.NoError(t, heir.ConfigSet(t.Context(), "masteruser", "nobody").Err())
	require.NoError(t, heir.ConfigSet(t.Context(), "masterauth", "nothing").Err())
	require.NoError(t, old.Do(t.Context(), "client", "kill", "type", "replica").Err())
	lease, err := a.Acquire(t.Context(), name, WithoutRenewal())
	require.NoError(t, err)
	require.NoError(t, heir.Do(t.Context(), "cluster", "failover", "takeover").Err())
	require.Eventually(t, func() bool {
		info, err := old.Info(context.Background(), "replication").Result()
		return err == nil && field(info, "role") == "slave"
	}, 10*time.Second, time.Millisecond)
	second, err := b.Acquire(t.Context(), name, WithWait(700*time.Millisecond))
	require.NoError(t, lease.Err(), "the machine was too slow for this TTL")
	if err == nil {
		require.NoError(t, second.Release(t.Context()))
	}
	return err
}

func TestClusterTakeoverByALaggingReplica(t *testing.T) {
	err := takenOver(t, 0)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorIs(t, err, ErrQuarantined)
}

func TestClusterTakeoverByALaggingReplicaMutant(t *testing.T) {
	require.NoError(t, takenOver(t, mutantBucketSeal), "without the seal a second holder was expected")
}

// A Cluster that serves nothing without all of its slots, as is the default, loses
// all votes until a dead master is replaced. A lease that outlives that is renewed.
func TestClusterFullCoverageAndAMovingSlot(t *testing.T) {
	c := startCluster(t, 3, 1)
	l := lagged(overCluster(t, c, 3), shortLag)
	require.NoError(t, l.Init(t.Context()))
	lease, err := l.Acquire(t.Context(), "x") // 10 s
	require.NoError(t, err)
	k := bucketFor("lock:x", 1, 3)
	require.NoError(t, c.Migrate(t.Context(), bucketSlot(k), c.Masters[1], c.Masters[2], func(step string) {
		// Its vote is missing while the slot is between two masters.
		require.NoError(t, lease.Extend(t.Context(), 10*time.Second), step)
		require.NoError(t, lease.Err(), step)
	}))
	require.NoError(t, lease.Extend(t.Context(), 10*time.Second), "and after")
	require.NoError(t, c.Migrate(t.Context(), bucketSlot(k), c.Masters[2], c.Masters[1], nil), "and back")
	require.NoError(t, replaced(t, c, 0))
	require.Eventually(t, func() bool {
		return lease.Extend(context.Background(), 10*time.Second) == nil
	}, 5*time.Second, 50*time.Millisecond)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
}

// A member of a Cluster is no master of its own, and a master is no Cluster.
func TestClusterAndMasterAreToldApart(t *testing.T) {
	c := startCluster(t, 1, 0)
	l, err := New([]Node{Master(&redis.Options{Addr: c.Masters[0].Addr()})})
	require.NoError(t, err)
	defer l.Close()
	_, err = l.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "redis+cluster://")

	s := startServers(t, 1, redisproc.Options{})
	l2, err := New(Cluster(&redis.ClusterOptions{Addrs: []string{s[0].Addr()}}, 1))
	require.NoError(t, err)
	defer l2.Close()
	_, err = l2.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "use Master")

	admin := redis.NewClient(&redis.Options{Addr: c.Masters[0].Addr()})
	defer admin.Close()
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "right").Err())
	l3, err := New(Cluster(&redis.ClusterOptions{Addrs: []string{c.Masters[0].Addr()}, Password: "wrong"}, 1))
	require.NoError(t, err)
	defer l3.Close()
	_, err = l3.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrConfig)
}
