package redlock

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// Sentinel is a Sentinel-managed group as one voter: its master votes, wherever
// that is. Three groups make a lock that survives the loss of one of them.
//
// The master is the one that a majority of the configured sentinels names:
// those given, and those that they name (two of three, three of five). All are
// asked at once, within the node timeout, before every new connection, once a
// second while the group is in use, and when one of them tells of a switch.
// When a majority names another master, all connections to the old one are
// dropped. A server counts only if its own role is master, and an answer only if
// the group's config epoch did not go back.
//
// A promoted replica may lack locks that its master had granted. It bears no
// seal of its own, so it abstains until every such lease has ended: max TTL plus
// 1 % and 2 s, and 12 s more, in which an old master may go on granting
// (hazards H11, H12). It stops by then only with min-replicas-to-write set, and
// min-replicas-max-lag at most 10 s; without that [Locker.Check] fails and the
// log warns once. Leases that stand are extended meanwhile.
//
// Of the options count MasterName, SentinelAddrs, the credentials of both kinds
// (those of the sentinels are their own, and are none unless given), DB,
// TLSConfig, Dialer, OnConnect and ClientName; Dialer is used for the sentinels
// too. TLSConfig is also the sentinels' unless [SentinelTLS] gives another.
// Timeouts and pools are the Locker's own. ReplicaOnly, RouteByLatency and
// RouteRandomly send commands to replicas, which have no vote, and are a
// *[ConfigError], as are an empty name and a list without addresses, or with more
// than 16; [New] reports these. An unknown name and refused credentials are one
// too, found when the sentinels are first asked. The options are copied.
func Sentinel(opt *redis.FailoverOptions, s ...SentinelOption) Node {
	if err := checkSentinel(opt); err != nil {
		return Node{err: err}
	}
	g := &group{name: opt.MasterName, addrs: slices.Clone(opt.SentinelAddrs), db: opt.DB}
	set := sentinelSettings{tls: opt.TLSConfig}
	for _, o := range s {
		if o != nil {
			o(&set)
		}
	}
	g.wire = &sentinelRedis{
		master: redis.Options{
			ClientName: opt.ClientName, Dialer: opt.Dialer, OnConnect: opt.OnConnect,
			Username: opt.Username, Password: opt.Password,
			CredentialsProvider: opt.CredentialsProvider, CredentialsProviderContext: opt.CredentialsProviderContext,
			StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
			TLSConfig:                    opt.TLSConfig, DB: opt.DB,
			ReadBufferSize: opt.ReadBufferSize, WriteBufferSize: opt.WriteBufferSize,
		},
		sentinel: redis.Options{
			ClientName: opt.ClientName, Dialer: opt.Dialer,
			Username: opt.SentinelUsername, Password: opt.SentinelPassword, TLSConfig: set.tls,
			ReadBufferSize: sentinelBuffer, WriteBufferSize: sentinelBuffer,
		},
	}
	slices.Sort(g.addrs)
	return Node{dialer: g, where: "sentinel " + g.name + " " + strings.Join(g.addrs, ",")}
}

// SentinelOption sets what redis.FailoverOptions has no field for.
type SentinelOption func(*sentinelSettings)

type sentinelSettings struct{ tls *tls.Config }

// SentinelTLS is the TLS of the connections to the sentinels; nil for none. Unless
// it is given they use that of the masters.
func SentinelTLS(c *tls.Config) SentinelOption {
	return func(s *sentinelSettings) { s.tls = c }
}

// sentinelBuffer is small, since what sentinels say is short.
const sentinelBuffer = 4 << 10

// maxSentinels bounds the sentinels that are given, and those that are asked.
const maxSentinels = 16

func checkSentinel(opt *redis.FailoverOptions) error {
	switch {
	case opt == nil:
		return &ConfigError{"node", "nil options", "give the name of the group's master and the address of at least one of its sentinels"}
	case opt.MasterName == "":
		return &ConfigError{"Sentinel", "", "has no MasterName; give the name under which the sentinels monitor the master"}
	case len(opt.SentinelAddrs) == 0:
		return &ConfigError{"Sentinel", "", "has no SentinelAddrs; give the addresses of the sentinels, all of them if you can"}
	case len(opt.SentinelAddrs) > maxSentinels:
		return &ConfigError{"Sentinel", "", fmt.Sprintf("has more than %d SentinelAddrs; three or five are enough", maxSentinels)}
	case opt.ReplicaOnly, opt.RouteByLatency, opt.RouteRandomly:
		return &ConfigError{"Sentinel", "ReplicaOnly, RouteByLatency, RouteRandomly", "send commands to replicas, and a replica has no vote; leave them out"}
	}
	seen := make(map[string]bool)
	for _, a := range opt.SentinelAddrs {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" {
			return &ConfigError{"Sentinel", "", "has a sentinel's address that is not host:port"}
		}
		if seen[a] {
			return &ConfigError{"Sentinel", "", "names a sentinel twice; name each once"}
		}
		seen[a] = true
	}
	return nil
}

// group says how a Sentinel group is reached. What is at work is a watch of each
// Locker's own.
type group struct {
	name  string
	addrs []string // of the sentinels, as given
	db    int
	wire  sentinelWire
}

// sentinelWire is how sentinels and masters are reached: go-redis, or a test's.
type sentinelWire interface {
	// ask asks the sentinel at addr for the group.
	ask(addr, name string, timeout time.Duration) (sentinelSaid, error)
	// listen hears of switches from the sentinel at addr.
	listen(addr string, timeout time.Duration) (seam.Ear, error)
	// dial connects to the master at addr.
	dial(addr string, timeout time.Duration) (seam.Conn, error)
	// listenMaster subscribes to a channel of the master at addr.
	listenMaster(addr, channel string, timeout time.Duration) (seam.Ear, error)
}

// Node is the group's address, as ParseNodes reads it.
func (g *group) Node() string {
	s := fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(g.addrs, ","), g.name)
	if g.db != 0 {
		s += fmt.Sprintf("?db=%d", g.db)
	}
	return s
}

// DB is the database of the master, which is part of the seal.
func (g *group) DB() int { return g.db }

// Lag is how long a master that was replaced may go on granting.
func (g *group) Lag() time.Duration { return deposedFor }

// Dial is for seam.Dialer; a Locker dials through its watch.
func (g *group) Dial(time.Duration) (seam.Conn, error) {
	return nil, &ConfigError{"node " + g.Node(), "", "is a group, whose master is dialled by a Locker's watch"}
}
