package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/redisproc"
	"github.com/redlock-go/redlock/internal/seam"
)

// memNodes makes n in-memory nodes.
func memNodes(n int) []*memnode.Node {
	var nodes []*memnode.Node
	for i := range n {
		nodes = append(nodes, memnode.New(fmt.Sprint("mem", i), nil))
	}
	return nodes
}

// overMem makes a Locker over in-memory nodes, which ends with the test.
func overMem(t *testing.T, mems []*memnode.Node, opts ...Option) *Locker {
	t.Helper()
	var nodes []Node
	for _, m := range mems {
		nodes = append(nodes, NodeOver(m.Dialer()))
	}
	l, err := New(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestSealText(t *testing.T) {
	spec := sealSpec{mode: modeStrict, n: 5, maxTTL: 10 * time.Second, db: 2}
	text := spec.text(1500*time.Millisecond, "abc")
	require.Equal(t, "v1|strict|5|10000|2|1500|abc", text)
	got, ok := parseSeal(text)
	require.True(t, ok)
	require.Equal(t, seal{sealSpec: spec, at: 1500 * time.Millisecond, replid: "abc"}, got)

	for name, c := range map[string]struct {
		text, replid string
		want         sealKind
	}{
		"ours":           {text, "abc", sealOurs},
		"none":           {"", "abc", sealMissing},
		"restarted":      {text, "def", sealStale},
		"another N":      {strings.Replace(text, "|5|", "|3|", 1), "abc", sealForeign},
		"another N, old": {strings.Replace(text, "|5|", "|3|", 1), "def", sealForeign},
		"another TTL":    {strings.Replace(text, "10000", "20000", 1), "abc", sealForeign},
		"another mode":   {strings.Replace(text, "strict", "best-effort", 1), "abc", sealForeign},
		"another db":     {strings.Replace(text, "|2|", "|0|", 1), "abc", sealForeign},
		"another format": {"v2" + text[2:], "abc", sealForeign},
		"void":           {sealSpec{mode: modeVoid, n: 5, maxTTL: 10 * time.Second, db: 2}.text(0, "abc"), "abc", sealForeign},
		"garbage":        {"hello", "abc", sealForeign},
		"negative":       {strings.Replace(text, "1500", "-1", 1), "abc", sealForeign},
		"huge":           {strings.Replace(text, "1500", "99999999999999999999", 1), "abc", sealForeign},
		"too long":       {text + strings.Repeat("x", 300), "abc", sealForeign},
	} {
		kind, _ := spec.kind(c.text, c.replid)
		require.Equal(t, c.want, kind, name)
	}
}

// bareMajority is the story of a node that restarts empty under a lease that
// stands on a bare majority, and says what a second client got meanwhile.
func bareMajority(t *testing.T, m mutant) (second error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(3)
		opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m)}
		a, b := overMem(t, mems, opts...), overMem(t, mems, opts...)
		require.NoError(t, a.Init(t.Context()))
		warm, err := b.TryAcquire(t.Context(), "other") // b's lanes are open before anything happens
		require.NoError(t, err)
		require.NoError(t, warm.Release(t.Context()))

		mems[2].Refuse(seam.Acquire, errors.New("OOM command not allowed"))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		mems[2].Refuse(seam.Acquire, nil)
		mems[1].Forget()

		stolen, err := b.TryAcquire(t.Context(), "x")
		if second = err; err == nil {
			_ = stolen.Release(t.Context())
			return
		}
		time.Sleep(900 * time.Millisecond) // renewals put the key back, also on the node that was never asked
		synctest.Wait()
		v, _, ok := mems[1].Get("lock:x")
		require.True(t, ok)
		require.Equal(t, lease.Token(), v)
		require.NoError(t, lease.Err())
		_, err = b.TryAcquire(t.Context(), "y")
		require.NoError(t, err, "two of three still vote")

		time.Sleep(1900 * time.Millisecond) // Q is 3.01 s
		require.True(t, b.voters[1].quarantined())
		time.Sleep(time.Second)
		require.False(t, b.voters[1].quarantined())
		require.NoError(t, lease.Err(), "the lease was carried through")
		require.NoError(t, lease.Release(t.Context()))
	})
	return second
}

func TestRestartUnderABareMajority(t *testing.T) {
	require.ErrorIs(t, bareMajority(t, 0), ErrHeld)
}

func TestRestartUnderABareMajorityMutant(t *testing.T) {
	require.NoError(t, bareMajority(t, mutantNoSeal), "without the seal a second holder was expected")
}

// lagging is the recipe of design section 5 on real servers: REPLICAOF a copy
// that lacks the lock, and back, under live connections. It keeps the
// connection, its CLIENT ID, and an unchanged seal in the copied data; only the
// replid tells. What a second client got is returned.
func lagging(t *testing.T, m mutant) error {
	t.Helper()
	servers := startServers(t, 2, redisproc.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m)}
	a, b := overServers(t, servers[:1], opts...), overServers(t, servers[:1], opts...)
	one := redis.NewClient(&redis.Options{Addr: servers[0].Addr()})
	two := redis.NewClient(&redis.Options{Addr: servers[1].Addr()})
	defer one.Close()
	defer two.Close()
	follow(t, two, servers[0]) // before the seal: the first replica ever gives a master a new replid
	require.NoError(t, a.Init(t.Context()))
	require.Eventually(t, func() bool { // the copy has the seal…
		return two.Exists(context.Background(), a.ward.sealKey).Val() == 1
	}, 5*time.Second, time.Millisecond)
	alone(t, two)
	warm, err := b.TryAcquire(t.Context(), "other")
	require.NoError(t, err)
	require.NoError(t, warm.Release(t.Context()))
	lease, err := a.Acquire(t.Context(), "x", WithoutRenewal())
	require.NoError(t, err)
	follow(t, one, servers[1]) // …and lacks the lock
	alone(t, one)
	require.NoError(t, lease.Err(), "the machine was too slow for this TTL")
	stolen, err := b.TryAcquire(t.Context(), "x")
	if err == nil {
		require.NoError(t, lease.Err(), "two holders at once")
		require.NoError(t, stolen.Release(t.Context()))
	}
	return err
}

// follow makes a server a replica of another and waits until it has its data.
func follow(t *testing.T, c *redis.Client, of *redisproc.Server) {
	t.Helper()
	host, port, _ := strings.Cut(of.Addr(), ":")
	require.NoError(t, c.ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool {
		info, err := c.Info(context.Background(), "replication").Result()
		return err == nil && field(info, "master_link_status") == "up"
	}, 10*time.Second, time.Millisecond)
}

func alone(t *testing.T, c *redis.Client) {
	t.Helper()
	require.NoError(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

func TestReplicaOfALaggingCopyAndBack(t *testing.T) {
	err := lagging(t, 0)
	require.ErrorIs(t, err, ErrQuarantined)
	require.ErrorIs(t, err, ErrNoQuorum)
}

func TestReplicaOfALaggingCopyAndBackMutant(t *testing.T) {
	require.NoError(t, lagging(t, mutantNoInfo), "with MGET alone a second holder was expected")
}
