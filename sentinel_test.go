package redlock

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
)

var sentinelRuns = flag.Int("sentinel.runs", 1, "how often a lagging replica is promoted")

// startGroup starts a real Sentinel group.
func startGroup(tb testing.TB, args ...string) *redisproc.Group {
	tb.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	g, err := redisproc.StartGroup(context.Background(), "main", 1, 3, args...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, g.Close()) })
	return g
}

func groupNode(g *redisproc.Group) Node {
	return Sentinel(&redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: g.Addrs()})
}

func overRealGroup(tb testing.TB, nodes []Node, opts ...Option) *Locker {
	tb.Helper()
	l, err := New(nodes, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func TestSentinelLifeCycle(t *testing.T) {
	g := startGroup(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	l := overRealGroup(t, []Node{Sentinel(&redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: g.Addrs()[:1], DB: 2})})
	require.NoError(t, l.Init(t.Context()))
	lease, err := l.Acquire(t.Context(), "x", WithLabel("me"))
	require.NoError(t, err)
	_, err = l.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
	require.NoError(t, lease.Release(t.Context()))
	for _, r := range l.Check(t.Context()) {
		require.True(t, r.OK, "%+v", r)
	}
}

// promoted is hazard H11: a lock is taken on a master whose replica is a master
// already, before the sentinels have agreed on it. It says what a second client
// got while the first held the lock.
func promoted(t *testing.T, m mutant, runs int) (double int) {
	t.Helper()
	g := startGroup(t)
	opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m)}
	a := lagged(overRealGroup(t, []Node{groupNode(g)}, opts...), shortLag)
	b := lagged(overRealGroup(t, []Node{groupNode(g)}, opts...), shortLag)
	require.NoError(t, a.Init(t.Context()))
	for range runs {
		for _, l := range []*Locker{a, b} {
			require.NoError(t, l.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		}
		heir := g.Replicas[0].Addr()
		require.NoError(t, g.Failover(t.Context(), 0))
		require.Eventually(t, func() bool {
			addr, err := g.Named(context.Background(), 0)
			return err == nil && addr == heir
		}, 10*time.Second, 2*time.Millisecond)
		lease, err := a.TryAcquire(t.Context(), "x", WithoutRenewal())
		if err != nil {
			require.True(t, errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrHeld), "%v", err) // all have switched
		}
		for err == nil && lease.Err() == nil {
			second, err := b.TryAcquire(t.Context(), "x")
			if err != nil {
				continue
			}
			if lease.Err() == nil {
				double++
			}
			require.NoError(t, second.Release(t.Context()))
			break
		}
		require.NoError(t, g.Settled(t.Context()))
	}
	return double
}

func TestSentinelPromotesALaggingReplica(t *testing.T) {
	require.Zero(t, promoted(t, 0, *sentinelRuns))
}

func TestSentinelPromotesALaggingReplicaMutant(t *testing.T) {
	require.NotZero(t, promoted(t, mutantNoSeal, 2**sentinelRuns), "without the seal two holders were expected")
}

// A lease on a group and two masters outlives the death of the group's master, and
// the group votes again.
func TestSentinelFailoverKeepsALease(t *testing.T) {
	g := startGroup(t)
	nodes := []Node{groupNode(g)}
	for _, s := range startServers(t, 2, redisproc.Options{}) {
		nodes = append(nodes, Master(&redis.Options{Addr: s.Addr()}))
	}
	opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second)}
	l := lagged(overRealGroup(t, nodes, opts...), shortLag)
	require.NoError(t, l.Init(t.Context()))
	lease, err := l.Acquire(t.Context(), "x")
	require.NoError(t, err)
	heir := g.Replicas[0]
	g.Master.Kill()
	admin := redis.NewClient(&redis.Options{Addr: heir.Addr()})
	defer admin.Close()
	require.Eventually(t, func() bool {
		return admin.Get(context.Background(), "lock:x").Val() == lease.Token() &&
			field(admin.Info(context.Background(), "replication").Val(), "role") == "master"
	}, 15*time.Second, 10*time.Millisecond, "the lease is kept on the new master too")
	require.NoError(t, lease.Err())
	require.Eventually(t, func() bool { return !l.voters[0].quarantined() && l.serving() == 3 }, 15*time.Second, 10*time.Millisecond)
	require.NoError(t, lease.Release(t.Context()))
}

// Each trouble of the sentinels fails at once, and says what to do.
func TestSentinelTroubleIsTold(t *testing.T) {
	g := startGroup(t)
	try := func(opt redis.FailoverOptions) error {
		if opt.MasterName == "" {
			opt.MasterName = g.Name
		}
		if opt.SentinelAddrs == nil {
			opt.SentinelAddrs = g.Addrs()
		}
		l := overRealGroup(t, []Node{Sentinel(&opt)})
		start := time.Now()
		_, err := l.TryAcquire(t.Context(), "x")
		require.Less(t, time.Since(start), 2*time.Second)
		return err
	}
	err := try(redis.FailoverOptions{MasterName: "other"})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "SENTINEL MASTERS lists the names")

	everywhere := func(rule string) {
		for _, addr := range g.Addrs() {
			c := redis.NewClient(&redis.Options{Addr: addr, Password: "right"})
			require.NoError(t, c.Do(t.Context(), "acl", "setuser", "default", "resetpass", rule).Err())
			require.NoError(t, c.Close())
		}
	}
	everywhere(">right")
	err = try(redis.FailoverOptions{SentinelPassword: "secret"})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "give the sentinels' own")
	require.NotContains(t, err.Error(), "secret")
	require.ErrorIs(t, try(redis.FailoverOptions{SentinelPassword: "right"}), ErrQuarantined)
	everywhere("nopass")

	err = try(redis.FailoverOptions{SentinelAddrs: []string{g.Master.Addr()}})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "this is no sentinel")

	g.Sentinels[0].Stop()
	require.ErrorIs(t, try(redis.FailoverOptions{}), ErrQuarantined, "one that is silent is no trouble")
	for _, s := range g.Sentinels {
		s.Stop()
	}
	err = try(redis.FailoverOptions{})
	require.ErrorIs(t, err, ErrNoQuorum)
	for _, s := range g.Sentinels {
		s.Cont()
	}
	g.Sentinels[1].Kill()
	g.Sentinels[2].Kill()
	err = try(redis.FailoverOptions{})
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorContains(t, err, "1 of its 3 sentinels answered")
	require.ErrorContains(t, err, "start the others")
}

func TestParseSentinel(t *testing.T) {
	nodes, err := ParseNodes("redis+sentinel://u:s%40crit@h2,[::1]:7001/main?db=3&sentinel_password=other")
	require.NoError(t, err)
	g := nodes[0].dialer.(*group)
	require.Equal(t, []string{"[::1]:7001", "h2:26379"}, g.addrs)
	w := g.wire.(*sentinelRedis)
	require.Equal(t, "s@crit", w.master.Password)
	require.Equal(t, "other", w.sentinel.Password)
	require.Empty(t, w.sentinel.Username, "the sentinels' credentials are their own")
	require.Equal(t, 3, w.master.DB)
	require.Equal(t, "redis+sentinel://[::1]:7001,h2:26379/main?db=3", nodes[0].String())

	nodes, err = ParseNodes("rediss+sentinel://h1/main?skip_verify=true&sentinel_tls=false")
	require.NoError(t, err)
	w = nodes[0].dialer.(*group).wire.(*sentinelRedis)
	require.NotNil(t, w.master.TLSConfig)
	require.Nil(t, w.sentinel.TLSConfig)
	for url, want := range map[string]struct {
		master, sentinel bool
		name             string
	}{
		"redis+sentinel://h1/main":                                          {false, false, ""},
		"redis+sentinel://h1/main?sentinel_tls=true":                        {false, true, ""},
		"redis+sentinel://h1/main?sentinel_server_name=s":                   {false, true, "s"},
		"rediss+sentinel://h1/main?server_name=m":                           {true, true, "m"},
		"rediss+sentinel://h1/main?server_name=m&sentinel_tls=true":         {true, true, "m"},
		"rediss+sentinel://h1/main?server_name=m&sentinel_skip_verify=true": {true, true, ""},
	} {
		nodes, err := ParseNodes(url)
		require.NoError(t, err, url)
		w := nodes[0].dialer.(*group).wire.(*sentinelRedis)
		require.Equal(t, want.master, w.master.TLSConfig != nil, url)
		require.Equal(t, want.sentinel, w.sentinel.TLSConfig != nil, url)
		if want.sentinel {
			require.Equal(t, want.name, w.sentinel.TLSConfig.ServerName, url)
		}
	}

	for url, rule := range map[string]string{
		"redis+sentinel://h1":                                              "no master name",
		"redis+sentinel://h1/a/b":                                          "no master name",
		"redis+sentinel:///main":                                           "no host",
		"redis+sentinel://h1,h1:26379/main":                                "twice",
		"redis+sentinel://h1/main?secret=1":                                "not known",
		"redis+sentinel://h1/main?db=secret":                               "database",
		"rediss+sentinel://h1/m?sentinel_tls=secret":                       "true or false",
		"redis+sentinel://u:secret@h1:70000/main":                          "port",
		"redis+sentinel://h1/m?sentinel_secret=1":                          "of the sentinels",
		"redis+sentinel://h1/m?sentinel_tls=false&sentinel_ca_file=secret": "leave out one",
	} {
		_, err := ParseNodes(url)
		require.ErrorIs(t, err, ErrConfig, url)
		require.ErrorContains(t, err, rule, url)
		require.NotContains(t, err.Error(), "secret", url)
	}
}
