package redlock

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// Cluster gives votes on distinct masters of one Redis Cluster, to be handed to
// [New] alone, or together with votes of other Clusters, groups and masters.
// Three votes on a Cluster of three masters or more make a lock that survives
// the loss of one of them; one vote each on three Clusters survives more.
//
// Names are divided into 64 fixed buckets, each a hash tag in an even part of
// the slots. With v votes bucket k belongs to vote k·v/64, so on a Cluster whose
// slots are spread as redis-cli spreads them the votes of a name lie on v
// different masters, and two clients never disagree on where they lie. Where
// slots were moved so that two votes of a name meet on one master (its run_id
// says so, with every answer), only one of them counts; the error says to
// rebalance. A bucket that is moved to another master, or whose master is
// replaced by its replica, abstains until every lease that may have been lost
// has ended: max TTL plus 1 % and 2 s, and 12 s more, in which an old master may
// still grant (hazards H11, H12). Leases that stand are extended meanwhile.
//
// Redirections are not followed: a master that is no longer the owner of a slot
// has not voted, and the owner is looked up again, with a majority of the
// masters. A Locker holds one connection and one goroutine for each bucket that
// its names fall into, and for all 64 where a seal is missing or old; a few per
// bucket on slow links.
//
// Of the options count Addrs, the credentials, TLSConfig, Dialer, OnConnect and
// ClientName; the other nodes are learned from those given. Timeouts and pools
// are the Locker's own; NewClient and ClusterSlots are not used. ReadOnly,
// RouteByLatency and RouteRandomly send commands to replicas, which have no vote,
// and are a *[ConfigError], as are votes outside 1 to 64 and a list without
// addresses; [New] reports these. More votes than the Cluster has masters is one
// too, found when it is first asked. The options are copied.
func Cluster(opt *redis.ClusterOptions, votes int) []Node {
	if err := checkCluster(opt, votes); err != nil {
		return []Node{{err: err}}
	}
	c := &cluster{addrs: slices.Clone(opt.Addrs), votes: votes}
	c.wire = &redisWire{base: redis.Options{
		ClientName: opt.ClientName, Dialer: opt.Dialer, OnConnect: opt.OnConnect,
		Username: opt.Username, Password: opt.Password,
		CredentialsProvider: opt.CredentialsProvider, CredentialsProviderContext: opt.CredentialsProviderContext,
		StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
		TLSConfig:                    opt.TLSConfig,
		ReadBufferSize:               clusterBuffer, WriteBufferSize: clusterBuffer,
	}}
	return c.nodes()
}

// clusterBuffer is small, since there are many connections and no long replies.
const clusterBuffer = 4 << 10

// maxClusterAddrs bounds the addresses that are given, and those that are asked.
const maxClusterAddrs = 64

func checkCluster(opt *redis.ClusterOptions, votes int) error {
	switch {
	case opt == nil:
		return &ConfigError{"node", "nil options", "give the address of at least one node of the Cluster"}
	case len(opt.Addrs) == 0:
		return &ConfigError{"Cluster", "", "has no Addrs; give the address of at least one of its nodes"}
	case len(opt.Addrs) > maxClusterAddrs:
		return &ConfigError{"Cluster", "", fmt.Sprintf("has more than %d Addrs; two or three are enough, the others are learned", maxClusterAddrs)}
	case votes < 1 || votes > clusterBuckets:
		return &ConfigError{"votes", fmt.Sprint(votes), fmt.Sprintf("must be from 1 to the number of the Cluster's masters, and at most %d", clusterBuckets)}
	case opt.ReadOnly, opt.RouteByLatency, opt.RouteRandomly:
		return &ConfigError{"Cluster", "ReadOnly, RouteByLatency, RouteRandomly", "send commands to replicas, and a replica has no vote; leave them out"}
	}
	for _, a := range opt.Addrs {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return &ConfigError{"Cluster", "", "has an address that is not host:port"}
		}
	}
	return nil
}

// cluster says how a Cluster is reached. It is shared by all Lockers over its
// Nodes; what is at work is a fleet of each.
type cluster struct {
	addrs []string
	votes int
	wire  clusterWire
}

// clusterWire is how the nodes of a Cluster are reached: go-redis, or a test's.
type clusterWire interface {
	// nodes is what the node at addr says to CLUSTER NODES.
	nodes(addr string, timeout time.Duration) (string, error)
	// dial connects to the node at addr.
	dial(addr string, timeout time.Duration) (seam.Conn, error)
}

func (c *cluster) nodes() []Node {
	var nodes []Node
	for i := range c.votes {
		v := &clusterVote{c, i}
		nodes = append(nodes, Node{dialer: v, where: v.Node()})
	}
	return nodes
}

// clusterVote is one vote of a Cluster, as a Node carries it.
type clusterVote struct {
	c    *cluster
	vote int
}

// Node is the Cluster's address, as ParseNodes reads it, and which of its votes.
func (v *clusterVote) Node() string {
	return fmt.Sprintf("redis+cluster://%s?votes=%d#%d", strings.Join(v.c.addrs, ","), v.c.votes, v.vote+1)
}

// DB is 0: a Cluster has no other database.
func (v *clusterVote) DB() int { return 0 }

// Lag is how long a master that was replaced may go on granting.
func (v *clusterVote) Lag() time.Duration { return deposedFor }

// Dial is for seam.Dialer; a Locker dials bucket by bucket.
func (v *clusterVote) Dial(time.Duration) (seam.Conn, error) {
	return nil, &ConfigError{"node " + v.Node(), "", "is many buckets, which are dialled one by one"}
}

// redisWire reaches a real Cluster.
type redisWire struct{ base redis.Options }

func (w *redisWire) dial(addr string, timeout time.Duration) (seam.Conn, error) {
	opt := w.base
	opt.Addr = addr
	return newRedisDialer(&opt).Dial(timeout)
}

func (w *redisWire) nodes(addr string, timeout time.Duration) (string, error) {
	conn, err := w.dial(addr, timeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.(*redisConn).clusterNodes()
}
