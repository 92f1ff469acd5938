package redlock

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestParseCluster(t *testing.T) {
	nodes, err := ParseNodes("redis+cluster://u:s%40crit@h1:7000,[::1]:7001,h3?votes=5", "redis://m:1")
	require.NoError(t, err)
	require.Len(t, nodes, 6)
	c := nodes[0].dialer.(*clusterVote).c
	require.Equal(t, []string{"h1:7000", "[::1]:7001", "h3:6379"}, c.addrs)
	require.Equal(t, 5, c.votes)
	base := c.wire.(*redisWire).base
	require.Equal(t, "u", base.Username)
	require.Equal(t, "s@crit", base.Password)
	require.Nil(t, base.TLSConfig)
	require.Equal(t, "redis+cluster://h1:7000,[::1]:7001,h3:6379?votes=5#2", nodes[1].String())

	nodes, err = ParseNodes("rediss+cluster://h1,h2?skip_verify=true")
	require.NoError(t, err)
	require.Len(t, nodes, 3, "three votes unless given")
	tls := nodes[0].dialer.(*clusterVote).c.wire.(*redisWire).base.TLSConfig
	require.True(t, tls.InsecureSkipVerify)
	require.Empty(t, tls.ServerName, "every node has its own")
	require.True(t, nodes[0].dialer.(*clusterVote).c.wantsNames())
	nodes, err = ParseNodes("rediss+cluster://h1,h2?server_name=redis.example&votes=1")
	require.NoError(t, err)
	require.Equal(t, "redis.example", nodes[0].dialer.(*clusterVote).c.wire.(*redisWire).base.TLSConfig.ServerName)
}

func TestParseClusterRefuses(t *testing.T) {
	for url, rule := range map[string]string{
		"redis+cluster://":                          "no host",
		"redis+cluster://h1,":                       "no host",
		"redis+cluster://h1,h1:6379":                "twice",
		"redis+cluster://h1?votes=0":                "1 to",
		"redis+cluster://h1?votes=65":               "1 to",
		"redis+cluster://h1?votes=-3":               "votes is a number",
		"redis+cluster://h1?votes=secret":           "votes is a number",
		"redis+cluster://h1?votes=3&votes=3":        "twice",
		"redis+cluster://h1/2":                      "database",
		"redis+cluster://h1?ca_file=secret":         "votes=3",
		"rediss+cluster://h1?secret=1":              "not known",
		"redis+cluster://u:secret@h1:port":          "not an address",
		"redis+cluster://u:secret@h1,u:secret@h2:1": "not an address",
		"redis+cluster://u:secret@h1:70000,h2":      "port",
	} {
		_, err := ParseNodes(url)
		require.ErrorIs(t, err, ErrConfig, url)
		require.ErrorContains(t, err, rule, url)
		require.NotContains(t, err.Error(), "secret", url)
	}
}

func TestClusterRefusesBadArguments(t *testing.T) {
	opt := func(addrs ...string) *redis.ClusterOptions { return &redis.ClusterOptions{Addrs: addrs} }
	for what, nodes := range map[string][]Node{
		"nil options":        Cluster(nil, 3),
		"no addresses":       Cluster(opt(), 3),
		"bad address":        Cluster(opt("h1"), 3),
		"too many addresses": Cluster(opt(strings.Split(strings.Repeat("h:1,", 64)+"h:1", ",")...), 3),
		"no votes":           Cluster(opt("h1:1"), 0),
		"negative votes":     Cluster(opt("h1:1"), -1),
		"too many votes":     Cluster(opt("h1:1"), 65),
		"replicas":           Cluster(&redis.ClusterOptions{Addrs: []string{"h1:1"}, RouteByLatency: true}, 3),
		"listed twice":       append(Cluster(opt("h1:1"), 1), Cluster(opt("h1:1"), 1)...),
	} {
		_, err := New(nodes)
		require.ErrorIs(t, err, ErrConfig, what)
	}
	o := opt("h1:1")
	nodes := Cluster(o, 3)
	o.Addrs[0] = "changed:1"
	require.Contains(t, nodes[0].String(), "h1:1", "the options are copied")
	l, err := New(nodes)
	require.NoError(t, err, "without I/O")
	require.NoError(t, l.Close())
}

func TestClusterViewReadsWhatServersSay(t *testing.T) {
	v := &clusterView{}
	require.NoError(t, v.learn("10.0.0.1:7000", strings.Join([]string{
		"aaa :7000@17000 myself,master - 0 0 3 connected 0-8191 [93-<-bbb]",
		"bbb 10.0.0.2:7001@17001,host2 master - 0 0 5 connected 8192 8193-16383",
		"ccc 10.0.0.3:7002@17002 slave aaa 0 0 3 connected",
		"ddd :0@0 master,noaddr - 0 0 9 disconnected 0-16383",
		"eee 10.0.0.9:7003@17003 handshake - 0 0 0 connected",
		"nonsense",
	}, "\n")))
	require.Equal(t, bucketOwner{"aaa", "10.0.0.1:7000", 3}, v.owners[0])
	require.Equal(t, bucketOwner{"bbb", "10.0.0.2:7001", 5}, v.owners[32])
	require.Equal(t, bucketOwner{"bbb", "10.0.0.2:7001", 5}, v.owners[63])
	require.False(t, v.settled(), "one of two")
	require.NoError(t, v.learn("10.0.0.3:7002", "ccc 10.0.0.3:7002@17002 myself,master - 0 0 8 connected 0-8191\n"))
	require.Equal(t, "ccc", v.owners[0].id, "the higher epoch is right")
	require.Equal(t, []string{"10.0.0.3:7002", "10.0.0.2:7001"}, v.masterAddrs())
	require.False(t, v.settled(), "aaa is no master of the two any more")
	require.NoError(t, v.learn("10.0.0.2:7001", "bbb 10.0.0.2:7001@17001 myself,master - 0 0 5 connected 8192-16383\n"))
	require.True(t, v.settled())
	require.Error(t, v.learn("h:1", "what?"))

	named := &clusterView{hostnames: true}
	require.NoError(t, named.learn("h:1", "bbb 10.0.0.2:7001@17001,host2 myself,master - 0 0 5 connected 0-16383\n"))
	require.Equal(t, "host2:7001", named.owners[0].addr)
}
