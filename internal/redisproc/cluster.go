package redisproc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of local processes. Its methods are safe for
// concurrent use.
type Cluster struct {
	// Masters are the servers that began as masters, in the order of their slots,
	// and Replicas[i] are those of master i. A failover changes roles, not the lists.
	Masters  []*Server
	Replicas [][]*Server
}

// nodeTimeout is the cluster-node-timeout: a master that is gone is replaced
// within about twice that.
const nodeTimeout = time.Second

// clusterSlots is how many slots a Cluster has.
const clusterSlots = 16384

// StartCluster starts a Cluster with its slots spread evenly, and waits until
// every node knows it and every replica is in sync, which takes two seconds or so.
// The args are more arguments of each redis-server.
func StartCluster(ctx context.Context, masters, replicas int, args ...string) (*Cluster, error) {
	c := &Cluster{Replicas: make([][]*Server, masters)}
	for i := range masters * (1 + replicas) {
		s, err := startMember(ctx, args)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		if i < masters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas[(i-masters)%masters] = append(c.Replicas[(i-masters)%masters], s)
		}
	}
	if err := c.join(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// startMember starts a server whose bus has a free port too: the usual one,
// 10000 higher, may not exist.
func startMember(ctx context.Context, args []string) (s *Server, err error) {
	for range 5 {
		bus, err := freePort()
		if err != nil {
			return nil, err
		}
		s, err = Start(ctx, Options{Args: append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
			"--cluster-port", strconv.Itoa(bus), "--repl-diskless-sync-delay", "0",
		}, args...)})
		if err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			return s, err
		}
	}
	return nil, err
}

// Servers are all of them.
func (c *Cluster) Servers() []*Server {
	all := append([]*Server(nil), c.Masters...)
	for _, r := range c.Replicas {
		all = append(all, r...)
	}
	return all
}

// Addrs are the addresses of all servers.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Servers() {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Close kills the servers and removes their folders.
func (c *Cluster) Close() error {
	var errs []error
	for _, s := range c.Servers() {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// join makes one Cluster of the servers.
func (c *Cluster) join(ctx context.Context) error {
	n := len(c.Masters)
	first := c.Masters[0]
	for i, s := range c.Servers() {
		if err := tell(ctx, s, "cluster", "set-config-epoch", i+1); err != nil {
			return err
		}
		if i < n {
			from, to := i*clusterSlots/n, (i+1)*clusterSlots/n-1
			if err := tell(ctx, s, "cluster", "addslotsrange", from, to); err != nil {
				return err
			}
		}
		if s == first {
			continue
		}
		bus, err := first.busPort(ctx)
		if err != nil {
			return err
		}
		if err := tell(ctx, s, "cluster", "meet", "127.0.0.1", first.port, bus); err != nil {
			return err
		}
	}
	for i, replicas := range c.Replicas {
		id, err := query(ctx, c.Masters[i], "cluster", "myid")
		if err != nil {
			return err
		}
		for _, s := range replicas {
			// It has to have heard of its master first.
			if err := untilFine(ctx, func() error { return tell(ctx, s, "cluster", "replicate", id) }); err != nil {
				return err
			}
		}
	}
	return c.Settled(ctx)
}

// busPort is the port of the server's cluster bus, from its own line of CLUSTER
// NODES.
func (s *Server) busPort(ctx context.Context) (int, error) {
	text, err := query(ctx, s, "cluster", "nodes")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(text, "@")
	return strconv.Atoi(after[:strings.IndexAny(after, " ,")])
}

// Settled waits until every server that runs says that the Cluster is fine, that
// it knows all others, and who owns which slot as the others do, and until the
// replicas have the link to their master.
func (c *Cluster) Settled(ctx context.Context) error {
	return untilFine(ctx, func() error {
		owners := ""
		for _, s := range c.Servers() {
			if s.PID() == 0 {
				continue
			}
			info, err := query(ctx, s, "cluster", "info")
			if err != nil {
				return err
			}
			want := fmt.Sprintf("cluster_known_nodes:%d\r\n", len(c.Servers()))
			if !strings.Contains(info, "cluster_state:ok\r\n") || !strings.Contains(info, want) {
				return fmt.Errorf("%s: the cluster is not ok: %.60q", s.Addr(), info)
			}
			repl, err := query(ctx, s, "info", "replication")
			if err != nil {
				return err
			}
			if strings.Contains(repl, "role:slave") && !strings.Contains(repl, "master_link_status:up") {
				return fmt.Errorf("%s: not in sync", s.Addr())
			}
			own, err := s.owners(ctx)
			if err != nil {
				return err
			}
			if owners != "" && own != owners {
				return fmt.Errorf("%s: the servers disagree on slots", s.Addr())
			}
			owners = own
		}
		return nil
	})
}

// owners are the masters with their slots, as the server sees them.
func (s *Server) owners(ctx context.Context) (string, error) {
	cl := s.member()
	defer cl.Close()
	slots, err := cl.ClusterSlots(ctx).Result()
	var b strings.Builder
	for _, r := range slots {
		if len(r.Nodes) > 0 {
			fmt.Fprintf(&b, "%d-%d %s\n", r.Start, r.End, r.Nodes[0].Addr)
		}
	}
	return b.String(), err
}

// Owner is the server that serves a slot now, as a majority of its fellows may
// not know yet; nil when none does.
func (c *Cluster) Owner(ctx context.Context, slot int) *Server {
	for _, s := range c.Servers() {
		if s.PID() == 0 {
			continue
		}
		cl := s.member()
		nodes, err := cl.ClusterNodes(ctx).Result()
		_ = cl.Close()
		if err != nil {
			continue
		}
		for line := range strings.Lines(nodes) {
			if f := strings.Fields(line); len(f) > 8 && strings.Contains(f[2], "myself") && serves(f[8:], slot) {
				return s
			}
		}
	}
	return nil
}

func serves(ranges []string, slot int) bool {
	for _, r := range ranges {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && a <= slot && slot <= b {
			return true
		}
	}
	return false
}

// Failover makes a replica the master, in agreement with the one that is, and
// waits until it is and all know.
func (c *Cluster) Failover(ctx context.Context, replica *Server) error {
	if err := tell(ctx, replica, "cluster", "failover"); err != nil {
		return err
	}
	err := untilFine(ctx, func() error {
		info, err := query(ctx, replica, "info", "replication")
		if err == nil && !strings.Contains(info, "role:master") {
			err = fmt.Errorf("%s is no master yet", replica.Addr())
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.Settled(ctx)
}

// Migrate moves a slot with its keys from one master to another, as redis-cli
// does. Between the steps it calls during, unless that is nil: "begun" when the
// slot is marked as moving and "moved" when its keys are at the new place.
func (c *Cluster) Migrate(ctx context.Context, slot int, from, to *Server, during func(step string)) error {
	if during == nil {
		during = func(string) {}
	}
	fromID, err := query(ctx, from, "cluster", "myid")
	if err != nil {
		return err
	}
	toID, err := query(ctx, to, "cluster", "myid")
	if err != nil {
		return err
	}
	if err := tell(ctx, to, "cluster", "setslot", slot, "importing", fromID); err != nil {
		return err
	}
	if err := tell(ctx, from, "cluster", "setslot", slot, "migrating", toID); err != nil {
		return err
	}
	during("begun")
	cl := from.member()
	defer cl.Close()
	for {
		keys, err := cl.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.port, "", 0, 5000, "keys"}
		for _, k := range keys {
			args = append(args, k)
		}
		if err := tell(ctx, from, args...); err != nil {
			return err
		}
	}
	during("moved")
	for _, s := range append([]*Server{to, from}, c.Masters...) {
		if s.PID() == 0 {
			continue
		}
		if err := tell(ctx, s, "cluster", "setslot", slot, "node", toID); err != nil && !strings.Contains(err.Error(), "replica") {
			return err
		}
	}
	return nil
}

// member is a connection of its own to a server.
func (s *Server) member() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.Addr(), DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, Protocol: 2,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second,
	})
}

// query sends one command and returns its answer as text.
func query(ctx context.Context, s *Server, args ...any) (string, error) {
	cl := s.member()
	defer cl.Close()
	text, err := cl.Do(ctx, args...).Text()
	if err != nil {
		return "", fmt.Errorf("%s: %v: %w", s.Addr(), args, err)
	}
	return text, nil
}

func tell(ctx context.Context, s *Server, args ...any) error {
	_, err := query(ctx, s, args...)
	return err
}

// untilFine repeats f until it succeeds, for 20 s at most.
func untilFine(ctx context.Context, f func() error) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-limit.C:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
