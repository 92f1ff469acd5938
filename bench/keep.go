package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// hoard is many leases that one process keeps: how many, for how long, and what
// they may cost.
type hoard struct {
	leases int
	hold   time.Duration
}

// runS8 has each implementation that renews by itself keep a thousand leases.
// Once: what it counts needs no median.
func runS8(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S8", n)
	for _, m := range p.at(n) {
		if m.name != nameRedlock && m.name != nameRueidislock {
			continue // it has no renewal of its own
		}
		if err := p.hoard.keep(ctx, r, m); err != nil {
			return r, err
		}
	}
	return r, nil
}

// keep acquires the leases, keeps them, frees them, and records what it cost.
func (h hoard) keep(ctx context.Context, r *record, m maker) error {
	srv, err := startServers(ctx, r.N)
	if err != nil {
		return err
	}
	defer func() { _ = srv.close() }()
	l, err := m.open(ctx, srv.addrs)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	shut := sync.OnceFunc(l.close)
	defer shut()
	unlocks := make([]func() error, h.leases)
	prefix := r.Scenario + "-" + m.name + "-"
	// Connections and their buffers are no lease's.
	if err := each(h.leases, func(i int) error { return l.pair(ctx, prefix+"w"+strconv.Itoa(i), false) }); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	heap := live()
	if err := each(h.leases, func(i int) (err error) {
		unlocks[i], err = l.lock(ctx, prefix+strconv.Itoa(i))
		return err
	}); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	r.add(mMemory, m.name, float64(live()-heap)/float64(h.leases))
	scripts, err := srv.scripts(ctx)
	if err != nil {
		return err
	}
	cpu, start := cpuTime(), time.Now()
	select {
	case <-time.After(h.hold):
	case <-ctx.Done():
		return ctx.Err()
	}
	took, spent := time.Since(start), cpuTime()-cpu
	busy := runtime.NumGoroutine()
	r.add(mCPUShare, m.name, 100*spent.Seconds()/took.Seconds())
	after, err := srv.scripts(ctx)
	if err != nil {
		return err
	}
	due := float64(h.leases*r.N) * took.Seconds() / (lease / 3).Seconds()
	r.add(mScripts, m.name, float64(after-scripts)/took.Seconds())
	r.add(mExtends, m.name, float64(after-scripts)/due)
	start = time.Now()
	var lost sync.Map
	_ = each(h.leases, func(i int) error {
		if err := unlocks[i](); err != nil {
			lost.Store(i, err)
		}
		return nil
	})
	r.add(mReleased, m.name, millis(time.Since(start)))
	n := 0
	lost.Range(func(_, err any) bool {
		if n++; n == 1 {
			r.problem("%s: a lease did not last: %v", m.name, err)
		}
		return true
	})
	r.add(mLost, m.name, float64(n))
	r.countKeys(ctx, srv, m, prefix)
	shut()
	r.add(mHeldGo, m.name, float64(busy-settled(100*time.Millisecond, 0, runtime.NumGoroutine)))
	return nil
}

// each calls f for 0 to k-1, some at a time, and gives the first error.
func each(k int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, crowd)
	for g := range crowd {
		wg.Go(func() {
			for i := g; i < k; i += crowd {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// live is the memory of what is reachable: heap and stacks.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has put aside, pools for one
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

var evalsha = regexp.MustCompile(`(?m)^cmdstat_eval(?:sha)?:calls=(\d+)`)

// scripts counts the scripts that clients have run.
func (s *servers) scripts(ctx context.Context) (sum int64, err error) {
	for i, c := range s.admin {
		info, err := c.Info(ctx, "commandstats").Result()
		if err != nil {
			return 0, fmt.Errorf("counting scripts on %s: %w", s.addrs[i], err)
		}
		for _, found := range evalsha.FindAllStringSubmatch(info, -1) {
			n, err := strconv.ParseInt(found[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
