package redisproc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Group is a master, its replicas and the sentinels that watch them.
type Group struct {
	Name      string // of the master, as the sentinels know it
	Master    *Server
	Replicas  []*Server
	Sentinels []*Server
}

// StartGroup starts a master with replicas, and sentinels of which a majority has
// to agree, and waits until all know each other. The sentinels look around more
// often than they usually do. More arguments are the master's and the replicas'.
func StartGroup(ctx context.Context, name string, replicas, sentinels int, args ...string) (*Group, error) {
	g := &Group{Name: name}
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	fail := func(err error) (*Group, error) { return nil, errors.Join(err, g.Close()) }
	var err error
	if g.Master, err = Start(ctx, Options{Args: args}); err != nil {
		return fail(err)
	}
	for range replicas {
		r, err := Start(ctx, Options{Args: append(args, "--replicaof", "127.0.0.1 "+strconv.Itoa(g.Master.port))})
		if err != nil {
			return fail(err)
		}
		g.Replicas = append(g.Replicas, r)
	}
	for range sentinels {
		s, err := Start(ctx, Options{sentinel: fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n"+
			"sentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 2000\n",
			name, g.Master.port, sentinels/2+1, name, name)})
		if err != nil {
			return fail(err)
		}
		g.Sentinels = append(g.Sentinels, s)
		// A lower ping-period keeps replicas from being chosen.
		if err := tell(ctx, s, "sentinel", "debug", "info-period", 200, "publish-period", 200, "ask-period", 100); err != nil {
			return fail(err)
		}
	}
	if err := g.Settled(ctx); err != nil {
		return fail(err)
	}
	return g, nil
}

// Addrs are the addresses of the sentinels.
func (g *Group) Addrs() []string {
	var addrs []string
	for _, s := range g.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// servers are the master and the replicas.
func (g *Group) servers() []*Server { return append([]*Server{g.Master}, g.Replicas...) }

// Settled waits until every sentinel that runs names the same master, with all
// replicas and all other sentinels, and until the replicas are in sync. Master
// and Replicas say afterwards who is what.
func (g *Group) Settled(ctx context.Context) error {
	return untilFine(ctx, func() error {
		master := ""
		for _, s := range g.Sentinels {
			if s.PID() == 0 {
				continue
			}
			f, err := s.watched(ctx, g.Name)
			if err != nil {
				return err
			}
			if f["num-slaves"] != strconv.Itoa(len(g.Replicas)) || f["num-other-sentinels"] != strconv.Itoa(len(g.Sentinels)-1) || f["flags"] != "master" {
				return fmt.Errorf("%s: does not know all: %v", s.Addr(), f)
			}
			addr := f["ip"] + ":" + f["port"]
			if master != "" && master != addr {
				return errors.New("the sentinels disagree")
			}
			master = addr
		}
		if info, err := query(ctx, g.at(master), "info", "replication"); err != nil || strings.Count(info, "state=online") < len(g.Replicas) {
			return fmt.Errorf("the replicas are not in sync: %w", err)
		}
		for i, r := range g.Replicas {
			if r.Addr() == master {
				g.Master, g.Replicas[i] = r, g.Master
			}
		}
		return nil
	})
}

// at is the server with an address.
func (g *Group) at(addr string) *Server {
	for _, s := range g.servers() {
		if s.Addr() == addr {
			return s
		}
	}
	return g.Master
}

// Failover makes the sentinel with the given index promote a replica, although
// nothing is wrong. It does not wait.
func (g *Group) Failover(ctx context.Context, sentinel int) error {
	return untilFine(ctx, func() error { return tell(ctx, g.Sentinels[sentinel], "sentinel", "failover", g.Name) })
}

// Named is the address of the master that a sentinel names.
func (g *Group) Named(ctx context.Context, sentinel int) (string, error) {
	cl := g.Sentinels[sentinel].member()
	defer cl.Close()
	v, err := cl.Do(ctx, "sentinel", "get-master-addr-by-name", g.Name).StringSlice()
	if err != nil || len(v) != 2 {
		return "", fmt.Errorf("sentinel %d names nobody: %w", sentinel, err)
	}
	return v[0] + ":" + v[1], nil
}

// watched is SENTINEL MASTER.
func (s *Server) watched(ctx context.Context, name string) (map[string]string, error) {
	cl := s.member()
	defer cl.Close()
	list, err := cl.Do(ctx, "sentinel", "master", name).StringSlice()
	if err != nil {
		return nil, err
	}
	f := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		f[list[i]] = list[i+1]
	}
	return f, nil
}

// Close kills all and removes their folders.
func (g *Group) Close() error {
	var errs []error
	for _, s := range append(append([]*Server(nil), g.Sentinels...), g.servers()...) {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
