package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// The long scenarios are of this library only, run once, and hold it against
// figures of its own: what it does in a minute, not how fast it is.

// runL1 keeps ten thousand leases.
func runL1(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("L1", n)
	for _, m := range p.makers {
		if m.name == nameRedlock {
			return r, p.long.hoard.keep(ctx, r, m)
		}
	}
	return r, nil
}

// queue is many waiters on one name that is held for long, by a lease with a
// short TTL: it passes from one to the next only when the holder is done.
type queue struct {
	waiters int
	hold    time.Duration
}

// runL2 has them come one after the other, and looks at the order in which they
// get it.
func runL2(ctx context.Context, p *plan, n int) (*record, error) {
	r, q := newRecord("L2", n), p.long.queue
	srv, err := startServers(ctx, n)
	if err != nil {
		return r, err
	}
	defer func() { _ = srv.close() }()
	var nodes []redlock.Node
	for _, addr := range srv.addrs {
		nodes = append(nodes, redlock.Master(&redis.Options{Addr: addr}))
	}
	l, err := redlock.New(nodes, redlock.WithTTL(time.Second), redlock.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return r, err
	}
	defer func() { _ = l.Close() }()
	if err := l.Init(ctx); err != nil {
		return r, err
	}
	held, err := l.Acquire(ctx, "L2")
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.hold+time.Minute)
	defer cancel()
	each := make([]outcome, q.waiters)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range each {
		wg.Go(func() { each[i].work(ctx, &ours{l}, &job{Name: "L2", Count: 1}, i) })
		time.Sleep(500 * time.Microsecond) // so that who comes first has asked first
	}
	cpu, from := cpuTime(), time.Now()
	select {
	case <-time.After(q.hold - time.Since(start)):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	r.add(mCPUShare, nameRedlock, 100*(cpuTime()-cpu).Seconds()/time.Since(from).Seconds())
	last := stay{Worker: q.waiters, Got: 1, Left: now()}
	if err := held.Release(ctx); err != nil {
		r.problem("%s: the first holder's lease did not last: %v", nameRedlock, err)
	}
	wg.Wait()
	all := outcome{Stays: []stay{last}}
	for i := range each {
		all.merge(&each[i])
	}
	f := r.foundBy(&party{m: maker{name: nameRedlock}, wants: q.waiters + 1}, &all)
	r.add(mGap, nameRedlock, micros(f.gaps, 0.5))
	r.add(mGap99, nameRedlock, micros(f.gaps, 0.99))
	r.add(mOvertaken, nameRedlock, float64(overtaken(all.Stays)))
	r.add(mLost, nameRedlock, float64(q.waiters+1-len(all.Stays)))
	return r, nil
}

// overtaken counts those who got it after someone who had asked later.
func overtaken(s []stay) (n int) {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b stay) int { return cmp.Compare(a.Got, b.Got) })
	var latest stamp
	for _, one := range s {
		if one.Asked < latest {
			n++
		}
		latest = max(latest, one.Asked)
	}
	return n
}

// siege is a fight for one name by several processes while the node through
// which they are woken is killed, comes back empty, and the next such node hangs.
type siege struct {
	contest
	phase time.Duration // between one event and the next
}

func runL3(ctx context.Context, p *plan, n int) (*record, error) {
	r, s := newRecord("L3", n), p.long.siege
	srv, err := startServers(ctx, n)
	if err != nil {
		return r, err
	}
	defer func() { _ = srv.close() }()
	x, err := s.open(ctx, maker{name: nameRedlock, open: openRedlock}, srv.addrs)
	if err != nil {
		return r, err
	}
	defer x.close()
	var o *outcome
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { o, errs[0] = x.fight(ctx, s.contest, "L3", 7*s.phase) })
	wg.Go(func() { errs[1] = s.strike(ctx, srv, "lock:L3") })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return r, err
	}
	f := r.foundBy(x, o)
	r.add(mStall, nameRedlock, millis(f.stall))
	r.add(mFair, nameRedlock, f.fair)
	r.add(mLongest, nameRedlock, millis(f.longest))
	r.add(mGap, nameRedlock, micros(f.gaps, 0.5))
	r.add(mTaken, nameRedlock, float64(len(o.Stays))/(7*s.phase).Seconds())
	return r, nil
}

// strike does what happens to the nodes, an event a phase.
func (s siege) strike(ctx context.Context, srv *servers, key string) error {
	hit := -1
	for _, event := range []func() error{
		func() (err error) {
			if hit, err = srv.designated(ctx, key); err == nil {
				srv.procs[hit].Kill()
			}
			return err
		},
		func() error { return nil }, // it stays away for another phase
		func() error { return srv.procs[hit].Restart(ctx, true) },
		func() (err error) {
			if hit, err = srv.designated(ctx, key); err == nil {
				srv.procs[hit].Stop()
			}
			return err
		},
		func() error { return nil },
		func() error { srv.procs[hit].Cont(); return nil },
	} {
		select {
		case <-time.After(s.phase):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := event(); err != nil {
			return err
		}
	}
	return nil
}

// designated is the node at which most processes are registered for a name,
// looked at a few times.
func (s *servers) designated(ctx context.Context, key string) (int, error) {
	seen := make([]int64, len(s.admin))
	for range 100 {
		for i, c := range s.admin {
			if s.procs[i].PID() == 0 {
				continue
			}
			n, err := c.ZCard(ctx, "redlock:w:"+key).Result()
			if err != nil {
				return 0, fmt.Errorf("looking for waiters on %s: %w", s.addrs[i], err)
			}
			seen[i] += n
		}
		time.Sleep(time.Millisecond)
	}
	most := slices.Max(seen)
	if most == 0 {
		return 0, fmt.Errorf("nobody waits at any node for %s", key)
	}
	return slices.Index(seen, most), nil
}
