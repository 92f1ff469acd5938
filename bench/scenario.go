package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"
)

// plan is how much is measured.
type plan struct {
	rounds     int
	pairs      int           // a turn in S1
	load       time.Duration // a turn in S2
	faulty     int           // pairs a turn in S4, S5, S6
	slow       int           // of those, of an implementation that waits for its time-outs
	total      int           // pairs in S7
	fight      time.Duration // a turn in S3, S3b, S3c, S3d
	handovers  int           // a turn in S3e
	hoard      hoard         // S8
	nodes      int           // only this number of them; 0 = all
	full       bool          // all numbers of nodes
	long       long
	contention time.Duration // of each look for overlaps
	hung       bool          // S4 with redsync's defaults too
	makers     []maker
	progress   io.Writer
}

// long is the long scenarios'.
type long struct {
	only  bool
	hoard hoard
	queue queue
	siege siege
}

// newPlan scales everything with the pairs of S1.
func newPlan(rounds, pairs int) plan {
	return plan{
		rounds: rounds, pairs: pairs, load: time.Duration(pairs) * 400 * time.Microsecond,
		faulty: max(pairs*2/5, 1), slow: 3, total: 10_000,
		fight: time.Duration(pairs) * time.Millisecond, handovers: max(pairs/25, 1),
		hoard: hoard{leases: 1000, hold: 10 * time.Second},
		long: long{
			hoard: hoard{leases: 10_000, hold: time.Minute},
			queue: queue{waiters: 2000, hold: time.Minute},
			siege: siege{contest{id: "L3", processes: 4, workers: 8, hold: time.Millisecond}, 5 * time.Second},
		},
		contention: 200 * time.Millisecond,
		makers:     makers(), progress: io.Discard,
	}
}

// blocks is into how many parts a turn of S1 is cut: the implementations take
// turns in each, so what the machine does beside us hits all of them alike.
const blocks = 10

// scenario is one of bench.md's.
type scenario struct {
	id    string
	about string
	sizes []int
	more  []int // numbers of nodes that only a full run has
	run   func(ctx context.Context, p *plan, n int) (*record, error)
}

func scenarios() []scenario {
	one35, three, five := []int{1, 3, 5}, []int{3}, []int{5}
	return []scenario{
		{"S0", "what the machine gives", []int{1}, []int{3, 5}, runS0},
		{"S1", "one goroutine, fresh names", one35, nil, runS1},
		{"S2", "64 goroutines, distinct names", one35, nil, runS2},
		{"S3", "8 goroutines hammer one name", three, []int{1, 5}, hammer.run},
		{"S3b", "the same in 4 processes", three, []int{1, 5}, hammerApart.run},
		{"S3c", "8 goroutines want one name, with pauses", three, []int{1, 5}, thinkers.run},
		{"S3d", "the same in 4 processes", three, []int{1, 5}, thinkerApart.run},
		{"S3e", "one holder, one waiter in another process", three, []int{1, 5}, runS3e},
		{"S4", "one node of five stopped", five, nil, runS4},
		{"S5", "two nodes of five killed", five, nil, runS5},
		{"S6", "one node of five answers 20 ms late", five, nil, runS6},
		{"S7", "what is left behind", five, nil, runS7},
		{"S8", "1 000 leases, kept", five, []int{1, 3}, runS8},
	}
}

func longScenarios() []scenario {
	five := []int{5}
	return []scenario{
		{"L1", "10 000 leases, kept for a minute", five, nil, runL1},
		{"L2", "2 000 waiters on a name that is held for a minute", five, nil, runL2},
		{"L3", "4 processes of 8 waiters; the node that wakes them is killed, then one hangs", five, nil, runL3},
	}
}

// team is every implementation at work on the same servers.
type team struct {
	servers *servers
	makers  []maker
	lockers []locker
	names   []*names
	before  int // goroutines, before anything was opened
}

func newTeam(ctx context.Context, p *plan, id string, n int) (*team, error) {
	s, err := startServers(ctx, n)
	if err != nil {
		return nil, err
	}
	t := &team{servers: s, makers: p.at(n), before: runtime.NumGoroutine()}
	for _, m := range t.makers {
		l, err := m.open(ctx, s.addrs)
		if err != nil {
			t.close()
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		t.lockers = append(t.lockers, l)
		t.names = append(t.names, &names{prefix: id + "-" + m.name + "-"})
	}
	return t, nil
}

func (t *team) close() {
	for _, l := range t.lockers {
		l.close()
	}
	_ = t.servers.close()
}

// order is whose turn it is: rotated by the round, so that nobody is always
// first, or always behind the same one.
func (t *team) order(round int) []int {
	out := make([]int, len(t.lockers))
	for i := range out {
		out[i] = (i + round) % len(out)
	}
	return out
}

// finish looks for overlaps, closes everything and looks for what is left.
func (t *team) finish(ctx context.Context, p *plan, r *record) {
	for i, m := range t.makers {
		checkOverlap(ctx, p, r, m, t.lockers[i])
	}
	for i, m := range t.makers {
		r.countKeys(ctx, t.servers, m, t.names[i].prefix)
	}
	for _, l := range t.lockers {
		l.close()
	}
	t.lockers = nil
	if n := settled(2*time.Second, t.before, runtime.NumGoroutine); n > t.before {
		r.problem("%d goroutines are left after everything was closed", n-t.before)
	}
}

// countKeys counts an implementation's keys on all nodes once what is on its
// way had a second to arrive.
func (r *record) countKeys(ctx context.Context, s *servers, m maker, prefix string) {
	left := settled(time.Second, 0, func() int {
		n, err := s.keys(ctx, prefix)
		if err != nil {
			r.problem("%v", err)
		}
		return n
	})
	r.add(mKeys, m.name, float64(left))
}

// checkOverlap lets one implementation fight for one name.
func checkOverlap(ctx context.Context, p *plan, r *record, m maker, l locker) {
	over, got, err := contend(ctx, l, 8, p.contention, r.Scenario+"-contended-"+m.name)
	if over > 0 {
		r.problem("%s: %d overlaps in %d acquisitions", m.name, over, got)
	}
	if m.name == nameRedlock && err != nil {
		r.problem("%s under contention: %v", m.name, err)
	}
	if got == 0 {
		r.problem("%s under contention: the name was never acquired", m.name)
	}
}

// runS1 is one goroutine that locks and frees fresh names.
func runS1(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S1", n)
	t, err := newTeam(ctx, p, r.Scenario, n)
	if err != nil {
		return nil, err
	}
	defer t.close()
	t.warm(ctx, p)
	for round := range p.rounds {
		got := make([]sample, len(t.lockers))
		runtime.GC()
		for b := range blocks {
			for _, i := range t.order(round + b) {
				sequence(ctx, t.lockers[i], t.names[i].take(max(p.pairs/blocks, 1)), false, &got[i])
			}
		}
		for _, i := range t.order(round) {
			name := t.makers[i].name
			r.add(mP50, name, micros(got[i].took, 0.5))
			r.add(mP99, name, micros(got[i].took, 0.99))
			r.add(mSuccess, name, got[i].success())
			r.add(mAllocs, name, mallocs(ctx, t.lockers[i], t.names[i].take(max(p.pairs/4, 20))))
			r.complain(name, &got[i])
		}
	}
	t.finish(ctx, p, r)
	return r, nil
}

// complain notes that this library failed where nothing was in its way. The
// others' failures are in the column.
func (r *record) complain(impl string, s *sample) {
	if impl == nameRedlock && s.failed > 0 {
		r.problem("%s: %d pairs failed, the first with: %v", impl, s.failed, s.err)
	}
}

// warm lets connections, scripts and caches come up before anything counts.
func (t *team) warm(ctx context.Context, p *plan) {
	for i, l := range t.lockers {
		var s sample
		sequence(ctx, l, t.names[i].take(min(p.pairs, 200)), false, &s)
	}
}

// crowd is how many goroutines S2 has.
const crowd = 64

// runS2 is many goroutines, each with names of its own.
func runS2(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S2", n)
	t, err := newTeam(ctx, p, r.Scenario, n)
	if err != nil {
		return nil, err
	}
	defer t.close()
	for i, l := range t.lockers {
		parallel(ctx, l, crowd, p.load/4, t.names[i].prefix+"w-")
	}
	for round := range p.rounds {
		for _, i := range t.order(round) {
			name := t.makers[i].name
			got := parallel(ctx, t.lockers[i], crowd, p.load, fmt.Sprintf("%s%d-", t.names[i].prefix, round))
			r.add(mRate, name, got.rate())
			r.add(mCPU, name, got.cpuUS())
			r.add(mSuccess, name, got.share())
			if name == nameRedlock && got.failed > 0 {
				r.problem("%s: %s, the first with: %v", name, &got, got.err)
			}
		}
	}
	t.finish(ctx, p, r)
	return r, nil
}
