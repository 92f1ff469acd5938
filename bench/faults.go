package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// solo is one implementation on servers of its own, which may be broken.
type solo struct {
	servers *servers
	m       maker
	l       locker
	names   *names
	before  int // goroutines, before it was opened
}

// withSolo starts fresh servers, opens one implementation on them, warms it up
// and lets f work; what is left behind afterwards is a problem of r. via puts
// something between the client and its servers.
func withSolo(ctx context.Context, p *plan, r *record, m maker, via func([]string) ([]string, error), f func(*solo) error) error {
	srv, err := startServers(ctx, r.N)
	if err != nil {
		return err
	}
	defer func() { _ = srv.close() }()
	addrs := srv.addrs
	if via != nil {
		if addrs, err = via(addrs); err != nil {
			return err
		}
	}
	s := &solo{servers: srv, m: m, names: &names{prefix: r.Scenario + "-" + m.name + "-"}, before: runtime.NumGoroutine()}
	if s.l, err = m.open(ctx, addrs); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	var warm sample
	sequence(ctx, s.l, s.names.take(min(p.faulty, 100)), true, &warm)
	r.complain(m.name, &warm)
	err = f(s)
	s.l.close()
	return err
}

// gone checks, once the implementation and what stood between are closed, that
// no goroutine is left.
func (r *record) gone(impl string, before int) {
	if n := settled(2*time.Second, before, runtime.NumGoroutine); n > before {
		r.problem("%s: %d goroutines are left after Close", impl, n-before)
	}
}

// measure runs k pairs, each in one round only, and records them.
func (s *solo) measure(ctx context.Context, r *record, k int) {
	var got sample
	sequence(ctx, s.l, s.names.take(k), true, &got)
	if len(got.took) > 0 {
		r.add(mFirst, s.m.name, float64(got.took[0])/float64(time.Microsecond))
	}
	r.add(mP50, s.m.name, micros(got.took, 0.5))
	r.add(mP99, s.m.name, micros(got.took, 0.99))
	r.add(mSuccess, s.m.name, got.success())
	r.complain(s.m.name, &got)
}

// checkOverlap looks for overlaps of this library only: the others, polling or
// not, start goroutines on the node in trouble faster than it answers them.
func (s *solo) checkOverlap(ctx context.Context, p *plan, r *record) {
	if s.m.name == nameRedlock {
		checkOverlap(ctx, p, r, s.m, s.l)
	}
}

// turns calls f for every implementation, in rotated order, for every round.
// One that waits for its time-outs has a single round.
func (p *plan) turns(n int, f func(round int, m maker) error) error {
	makers := p.at(n)
	for round := range p.rounds {
		for i := range makers {
			m := makers[(i+round)%len(makers)]
			if m.patient && round > 0 {
				continue
			}
			if err := f(round, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// count is how many pairs of an implementation are worth their time.
func (p *plan) count(m maker) int {
	if m.patient {
		return min(p.slow, p.faulty)
	}
	return p.faulty
}

// runS4 stops one node of five, as a machine that hangs: its connections stay
// up and nothing answers. It measures, lets it go on, and looks at what it was
// left with a second later.
func runS4(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S4", n)
	err := p.turns(n, func(round int, m maker) error {
		if m.patient && !p.hung {
			return nil
		}
		var before int
		err := withSolo(ctx, p, r, m, nil, func(s *solo) error {
			before = s.before
			var fit sample
			sequence(ctx, s.l, s.names.take(p.faulty), true, &fit)
			r.add(mP50Fit, m.name, micros(fit.took, 0.5))
			r.add(mP99Fit, m.name, micros(fit.took, 0.99))
			r.complain(m.name, &fit)
			at := runtime.NumGoroutine()
			hung := round % n
			s.servers.procs[hung].Stop()
			defer s.servers.procs[hung].Cont()
			k := p.count(m)
			if m.patient {
				k = 1
			}
			s.measure(ctx, r, k)
			r.add(mGrown, m.name, float64(max(runtime.NumGoroutine()-at, 0)))
			if round == 0 {
				s.checkOverlap(ctx, p, r)
			}
			s.servers.procs[hung].Cont()
			r.countKeys(ctx, s.servers, m, s.names.prefix)
			return nil
		})
		r.gone(m.name, before)
		return err
	})
	return r, err
}

// runS5 kills two nodes of five and measures from the first pair on.
func runS5(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S5", n)
	err := p.turns(n, func(round int, m maker) error {
		var before int
		err := withSolo(ctx, p, r, m, nil, func(s *solo) error {
			before = s.before
			for k := range 2 {
				s.servers.procs[(round+k)%n].Kill()
			}
			s.measure(ctx, r, p.count(m))
			if round == 0 {
				s.checkOverlap(ctx, p, r)
			}
			r.countKeys(ctx, s.servers, m, s.names.prefix)
			return nil
		})
		r.gone(m.name, before)
		return err
	})
	return r, err
}

// late is how much S6 delays the answers of one node.
const late = 20 * time.Millisecond

// runS6 has one node of five answer late.
func runS6(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S6", n)
	err := p.turns(n, func(round int, m maker) error {
		var d *delayer
		far := round % n
		before := runtime.NumGoroutine()
		via := func(addrs []string) (out []string, err error) {
			out = append(out, addrs...)
			d, err = newDelayer(ctx, addrs[far], late)
			if err == nil {
				out[far] = d.addr()
			}
			return out, err
		}
		err := withSolo(ctx, p, r, m, via, func(s *solo) error {
			s.measure(ctx, r, p.count(m))
			if round == 0 {
				s.checkOverlap(ctx, p, r)
			}
			r.countKeys(ctx, s.servers, m, s.names.prefix)
			return nil
		})
		if d != nil {
			d.close()
		}
		r.gone(m.name, before)
		return err
	})
	return r, err
}

// runS7 counts what many pairs leave behind, once: a count needs no median.
func runS7(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S7", n)
	for _, m := range p.at(n) {
		var before int
		err := withSolo(ctx, p, r, m, nil, func(s *solo) error {
			before = s.before
			time.Sleep(10 * time.Millisecond)
			at := runtime.NumGoroutine()
			var got sample
			sequence(ctx, s.l, s.names.take(p.total), false, &got)
			r.complain(m.name, &got)
			r.countKeys(ctx, s.servers, m, s.names.prefix)
			r.add(mGrown, m.name, float64(max(settled(time.Second, at, runtime.NumGoroutine)-at, 0)))
			r.add(mSuccess, m.name, got.success())
			return nil
		})
		r.gone(m.name, before)
		if err != nil {
			return r, err
		}
	}
	return r, nil
}
