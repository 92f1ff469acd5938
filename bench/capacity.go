package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// capacity measures what one operation costs a node: its own CPU time and memory
// as INFO tells them, so whatever else the machine does hardly shows. What a core
// of Redis carries follows from that (docs/operations.md).
type capacity struct {
	nodes  int
	load   time.Duration // of acquisitions and releases, and for how long leases are kept
	leases int           // that are kept meanwhile
	ttl    time.Duration // of those, which are renewed every third of it
}

// costs are one node's, per operation.
type costs struct {
	lone, busy float64 // µs of CPU for an acquisition with its release: one caller, 64 callers
	renewal    float64 // µs of CPU
	memory     float64 // bytes of a lease that stands
	pairs      int64   // that were counted, of the 64 callers
}

func newCapacity() capacity {
	return capacity{nodes: 3, load: 5 * time.Second, leases: 5000, ttl: 3 * time.Second}
}

// usage is what a node says of itself.
type usage struct{ cpu, memory float64 } // µs, bytes

// used is the mean over the nodes.
func (s *servers) used(ctx context.Context) (u usage, err error) {
	for i, c := range s.admin {
		info, err := c.Info(ctx, "cpu", "memory").Result()
		if err != nil {
			return u, fmt.Errorf("asking %s: %w", s.addrs[i], err)
		}
		lines := bufio.NewScanner(strings.NewReader(info))
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			v, _ := strconv.ParseFloat(value, 64)
			switch name {
			case "used_cpu_sys", "used_cpu_user":
				u.cpu += v * 1e6 / float64(len(s.admin))
			case "used_memory":
				u.memory += v / float64(len(s.admin))
			}
		}
	}
	return u, nil
}

// measure takes the costs on servers of its own.
func (c capacity) measure(ctx context.Context) (out costs, err error) {
	srv, err := startServers(ctx, c.nodes)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	var nodes []redlock.Node
	for _, addr := range srv.addrs {
		nodes = append(nodes, redlock.Master(&redis.Options{Addr: addr}))
	}
	l, err := redlock.New(nodes, redlock.WithTTL(c.ttl), redlock.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Init(ctx); err != nil {
		return out, err
	}
	mine := &ours{l}
	if out.lone, _, err = srv.perPair(ctx, mine, 1, c.load, "lone"); err != nil {
		return out, err
	}
	if out.busy, out.pairs, err = srv.perPair(ctx, mine, crowd, c.load, "busy"); err != nil {
		return out, err
	}
	return out, c.keep(ctx, srv, mine, &out)
}

// perPair is the CPU time that a node spends on a pair of callers on distinct names.
func (s *servers) perPair(ctx context.Context, l locker, callers int, d time.Duration, prefix string) (float64, int64, error) {
	before, err := s.used(ctx)
	if err != nil {
		return 0, 0, err
	}
	run := parallel(ctx, l, callers, d, prefix)
	after, err := s.used(ctx)
	if err = errors.Join(run.err, err); err != nil {
		return 0, 0, err
	}
	return (after.cpu - before.cpu) / float64(max(run.pairs, 1)), run.pairs, nil
}

// keep lets leases stand and measures what their renewal costs.
func (c capacity) keep(ctx context.Context, srv *servers, l *ours, out *costs) error {
	empty, err := srv.used(ctx)
	if err != nil {
		return err
	}
	unlocks := make([]func() error, c.leases)
	if err := each(c.leases, func(i int) (err error) {
		unlocks[i], err = l.lock(ctx, "kept"+strconv.Itoa(i))
		return err
	}); err != nil {
		return err
	}
	full, err := srv.used(ctx)
	if err != nil {
		return err
	}
	out.memory = (full.memory - empty.memory) / float64(c.leases)
	scripts, err := srv.scripts(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(c.load):
	case <-ctx.Done():
		return ctx.Err()
	}
	later, err := srv.used(ctx)
	if err != nil {
		return err
	}
	after, err := srv.scripts(ctx)
	if err != nil {
		return err
	}
	renewals := float64(after-scripts) / float64(c.nodes)
	if renewals == 0 {
		return errors.New("no lease was renewed: measure for longer than a third of the TTL")
	}
	out.renewal = (later.cpu - full.cpu) / renewals
	return each(c.leases, func(i int) error { return unlocks[i]() })
}

// print says what a node carries that may use a whole core. Every node carries
// everything, so more nodes carry no more.
func (c costs) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	perSecond := func(us float64) string { return fmt.Sprintf("%.0f a second", 1e6/us) }
	row := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) }
	row("on each node", "costs", "so a core of Redis carries at most")
	row("acquisition + release, one caller", fmt.Sprintf("%.1f µs", c.lone), perSecond(c.lone))
	row("acquisition + release, 64 callers", fmt.Sprintf("%.1f µs", c.busy), perSecond(c.busy))
	row("renewal", fmt.Sprintf("%.1f µs", c.renewal), perSecond(c.renewal))
	row("lease of 10 s kept", fmt.Sprintf("%.0f bytes", c.memory), fmt.Sprintf("%.0f leases, renewed every 3.3 s", 10.0/3*1e6/c.renewal))
	_ = t.Flush()
	_, _ = fmt.Fprintf(w, "%d pairs of 64 callers were counted\n", c.pairs)
}

// runCapacity is "bench -capacity".
func runCapacity(ctx context.Context, stdout, stderr io.Writer) int {
	got, err := newCapacity().measure(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	got.print(stdout)
	return 0
}
