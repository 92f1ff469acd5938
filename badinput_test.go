package redlock_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/redisproc"
	"github.com/redlock-go/redlock/redlocktest"
)

// configError insists on an ErrConfig whose text has all the words: what was
// wrong, and what to do.
func configError(t *testing.T, err error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, redlock.ErrConfig)
	var conf *redlock.ConfigError
	require.ErrorAs(t, err, &conf)
	require.NotEmpty(t, conf.Rule)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

func TestBadInput_Names(t *testing.T) {
	for what, c := range map[string]struct{ name, rule string }{
		"empty":             {"", "must not be empty"},
		"over-long":         {strings.Repeat("x", 513), "at most 512 bytes"},
		"a newline":         {"a\nb", "control characters"},
		"a null byte":       {"a\x00b", "control characters"},
		"a C1 control":      {"a\u0085b", "control characters"},
		"delete":            {"a\x7fb", "control characters"},
		"bytes, not UTF-8":  {"a\xffb", "UTF-8"},
		"half a character":  {"a\xe2\x82", "UTF-8"},
		"64 KiB of letters": {strings.Repeat("y", 64<<10), "shorten it"},
	} {
		t.Run(what, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				c2 := w.client()
				_, err := c2.Acquire(t.Context(), c.name)
				configError(t, err, "name", c.rule)
				require.Less(t, len(err.Error()), 300, "the error does not repeat what is too long")
				_, err = c2.TryAcquire(t.Context(), c.name)
				configError(t, err)
				configError(t, c2.Do(t.Context(), c.name, nil))
				_, err = c2.Inspect(t.Context(), c.name)
				configError(t, err)
				configError(t, c2.Break(t.Context(), c.name, "token"))
				require.Empty(t, c2.sent, "nothing was sent")
			})
		})
	}
	virtual(t, 3, func(t *testing.T, w *world) {
		for _, name := range []string{"a", strings.Repeat("x", 512), "x{b}y", "{}", "{{q}}", "é", "日本語", "a b", "*", "%s", `"`, ":"} {
			require.NoError(t, w.client().held(name).Release(t.Context()), "%q", name)
		}
	})
}

func TestBadInput_Options(t *testing.T) {
	many := func(n int) []redlock.Node { return redlocktest.NewNodes(n).Nodes() }
	for what, c := range map[string]struct {
		opt  redlock.Option
		rule string
	}{
		"a TTL below the minimum":   {redlock.WithTTL(9 * time.Millisecond), "at least 10ms"},
		"a TTL of zero":             {redlock.WithTTL(0), "at least 10ms"},
		"a TTL below zero":          {redlock.WithTTL(-time.Second), "at least 10ms"},
		"a TTL above the max":       {redlock.WithTTL(10*time.Second + 1), "at most the max TTL"},
		"a TTL beyond all":          {redlock.WithTTL(math.MaxInt64), "at most the max TTL"},
		"a max TTL below zero":      {redlock.WithMaxTTL(-1), "max TTL"},
		"a max TTL beyond all":      {redlock.WithMaxTTL(math.MaxInt64), "max TTL"},
		"a max TTL below the TTL":   {redlock.WithMaxTTL(time.Second), "at most the max TTL"},
		"a node timeout below zero": {redlock.WithNodeTimeout(-1), "node timeout"},
		"a node timeout too long":   {redlock.WithNodeTimeout(time.Hour), "node timeout"},
		"no drift at all":           {redlock.WithDrift(redlock.Drift{}), "drift"},
		"a drift of NaN":            {redlock.WithDrift(redlock.Drift{Rate: math.NaN()}), "drift"},
		"a drift that eats all":     {redlock.WithDrift(redlock.Drift{Fixed: time.Hour}), "eaten up"},
		"a drift below zero":        {redlock.WithDrift(redlock.Drift{Rate: -1}), "drift"},
		"a wait below zero":         {redlock.WithWait(-1), "wait"},
		"no back-off":               {redlock.WithBackoff(nil), "backoff"},
		"a max hold of zero":        {redlock.WithMaxHold(0), "max hold"},
		"a min hold above the TTL":  {redlock.WithMinHold(time.Minute), "min hold"},
		"a label too long":          {redlock.WithLabel(strings.Repeat("x", 513)), "label"},
		"a label with a newline":    {redlock.WithLabel("a\nb"), "label"},
		"a prefix with a newline":   {redlock.WithKeyPrefix("a\nb"), "key prefix"},
		"a prefix too long":         {redlock.WithKeyPrefix(strings.Repeat("x", 200)), "key prefix"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := redlock.New(many(3), c.opt)
			configError(t, err, c.rule)
			lo, ok := c.opt.(redlock.LockOption)
			if !ok {
				return
			}
			virtual(t, 3, func(t *testing.T, w *world) { // the same, of a single call
				if what == "a max TTL below the TTL" {
					return
				}
				cl := w.client()
				_, err := cl.Acquire(t.Context(), "x", lo)
				configError(t, err, c.rule)
				require.Empty(t, cl.sent)
			})
		})
	}
}

func TestBadInput_Nodes(t *testing.T) {
	master := func(addr string) redlock.Node { return redlock.Master(&redis.Options{Addr: addr}) }
	for what, nodes := range map[string][]redlock.Node{
		"none":            nil,
		"a zero value":    {{}},
		"the same twice":  {master("127.0.0.1:1"), master("127.0.0.1:2"), master("127.0.0.1:1")},
		"nil options":     {redlock.Master(nil)},
		"a nil client":    {redlock.Client(nil)},
		"two in Database": {redlock.Master(&redis.Options{Addr: "127.0.0.1:1", DB: 1}), redlock.Master(&redis.Options{Addr: "127.0.0.1:1", DB: 2})},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := redlock.New(nodes)
			configError(t, err)
		})
	}
	for _, url := range []string{
		"", " ", "http://h", "redis://", "redis://h:0", "redis://h:99999", "redis://h:x", "redis://h/x", "redis://h/-1", "h:6379:1",
		"redis://h:6379?what=1", "redis://h\n:6379",
	} {
		_, err := redlock.ParseNodes(url)
		require.ErrorIs(t, err, redlock.ErrConfig, "%q", url)
	}
	_, err := redlock.ParseNodes()
	require.ErrorIs(t, err, redlock.ErrConfig)
}

// overReal3 is three servers and a Locker that initialised them.
func overReal3(t *testing.T) ([]*realServer, *redlock.Locker) {
	t.Helper()
	servers := realServers(t)
	l := overReal(t, servers)
	require.NoError(t, l.Init(t.Context()))
	return servers, l
}

func TestBadInput_AnUnreachableMajority(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		w.first(2, func(n *memnode.Node) { n.Kill() })
		_, err := w.client().TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, []int{3, 2}, []int{q.N, q.Need})
		require.Equal(t, 3, q.Granted+q.Held+q.Failed+q.Pending)
		require.Len(t, q.Nodes.Errors, 2)
		require.ErrorContains(t, err, "connection refused")
		w.pass(time.Second)
		w.gone("lock:x")
	})
}

func TestBadInput_AWrongPassword(t *testing.T) {
	servers, _ := overReal3(t)
	for _, s := range servers[:2] {
		require.NoError(t, s.admin.ConfigSet(t.Context(), "requirepass", "right").Err())
	}
	for what, password := range map[string]string{"WRONGPASS": "S3CRET", "NOAUTH": ""} {
		var nodes []redlock.Node
		for _, s := range servers {
			nodes = append(nodes, redlock.Master(&redis.Options{Addr: s.Addr(), Password: password}))
		}
		l, err := redlock.New(nodes)
		require.NoError(t, err)
		_, err = l.TryAcquire(t.Context(), "x")
		configError(t, err, what, servers[0].Addr(), servers[1].Addr())
		require.NotContains(t, err.Error(), "S3CRET")
		require.NoError(t, l.Close())
	}
	require.Zero(t, servers[2].admin.Exists(t.Context(), "lock:x").Val())
}

func TestBadInput_AReplicaAsANode(t *testing.T) {
	servers, l := overReal3(t)
	for _, s := range servers[:2] {
		host, port, _ := strings.Cut(servers[2].Addr(), ":")
		require.NoError(t, s.admin.ReplicaOf(t.Context(), host, port).Err())
	}
	_, err := l.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "replica")
	bad := 0
	for _, r := range l.Check(t.Context()) {
		if !r.OK {
			bad++
		}
	}
	require.GreaterOrEqual(t, bad, 2)
}

func TestBadInput_AnEvictingNode(t *testing.T) {
	servers := realServers(t)
	for _, s := range servers[:2] {
		require.NoError(t, s.admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		require.NoError(t, s.admin.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	}
	l := overReal(t, servers)
	configError(t, l.Init(t.Context()), "allkeys-lru", "noeviction")
	for _, s := range servers {
		require.Zero(t, s.admin.DBSize(t.Context()).Val(), "nothing was written")
	}
	_, err := l.TryAcquire(t.Context(), "x")
	require.ErrorContains(t, err, "maxmemory-policy")
}

func TestBadInput_AKeyOfAForeignType(t *testing.T) {
	servers, l := overReal3(t)
	for _, s := range servers {
		require.NoError(t, s.admin.RPush(t.Context(), "lock:x", 1).Err())
	}
	_, err := l.Acquire(t.Context(), "x", redlock.WithWait(500*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.ErrorContains(t, err, "list")
	for _, s := range servers {
		require.Equal(t, "list", s.admin.Type(t.Context(), "lock:x").Val(), "untouched")
	}
}

func TestBadInput_TwoClientsThatDisagreeOnN(t *testing.T) {
	servers, l := overReal3(t)
	lease, err := l.Acquire(t.Context(), "x")
	require.NoError(t, err)
	one := overReal(t, servers[:1])
	_, err = one.TryAcquire(t.Context(), "x")
	configError(t, err, "N=3", "N=1", "init")
	require.NoError(t, lease.Release(t.Context()))
}

func TestBadInput_OneServerUnderTwoNames(t *testing.T) {
	servers := realServers(t)
	_, port, _ := strings.Cut(servers[0].Addr(), ":")
	l := overAddrs(t, []string{servers[0].Addr(), "localhost:" + port, servers[1].Addr()})
	err := l.Init(t.Context())
	configError(t, err, "same server")
	for _, s := range servers {
		require.Zero(t, s.admin.DBSize(t.Context()).Val(), "nothing was written")
	}
}

func TestBadInput_AClusterMemberIsNoMaster(t *testing.T) {
	servers, err := redisproc.StartN(t.Context(), 1, redisproc.Options{Args: []string{"--cluster-enabled", "yes"}})
	require.NoError(t, err)
	defer servers[0].Close()
	l := overAddrs(t, []string{servers[0].Addr()})
	configError(t, l.Init(t.Context()), "Redis Cluster")
	_, err = l.TryAcquire(t.Context(), "x")
	require.Error(t, err)
	require.NotErrorIs(t, err, redlock.ErrHeld, fmt.Sprint(errors.Unwrap(err)))
}
