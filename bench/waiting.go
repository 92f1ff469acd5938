package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// contest is a scenario in which callers wait for one name.
type contest struct {
	id          string
	processes   int // 0: goroutines of this process
	workers     int // of each
	hold, think time.Duration
}

// The waiting scenarios. Where callers think they also hold the name for a
// millisecond: eight of them then want it for longer than there is time, so
// somebody always waits.
var (
	hammer       = contest{id: "S3", workers: 8}
	hammerApart  = contest{id: "S3b", processes: 4, workers: 2}
	thinkers     = contest{id: "S3c", workers: 8, hold: time.Millisecond, think: 5 * time.Millisecond}
	thinkerApart = contest{id: "S3d", processes: 4, workers: 2, hold: time.Millisecond, think: 5 * time.Millisecond}
)

// party is one implementation in a contest: in this process, or in several.
type party struct {
	m     maker
	l     locker
	crew  crew
	wants int // workers in all
}

func (c contest) open(ctx context.Context, m maker, addrs []string) (p *party, err error) {
	p = &party{m: m, wants: c.workers * max(c.processes, 1)}
	if c.processes > 0 {
		p.crew, err = newCrew(ctx, m, addrs, c.processes)
		return p, err
	}
	if p.l, err = m.open(ctx, addrs); err != nil {
		err = fmt.Errorf("%s: %w", m.name, err)
	}
	return p, err
}

func (p *party) close() {
	p.crew.close()
	if p.l != nil {
		p.l.close()
	}
}

// fight has everybody want the name for d.
func (p *party) fight(ctx context.Context, c contest, name string, d time.Duration) (*outcome, error) {
	start := now() + stamp(2*time.Millisecond) // so that all processes have read it
	j := job{Name: name, Workers: c.workers, Start: start, End: start + stamp(d), Hold: c.hold, Think: c.think}
	if p.crew != nil {
		return p.crew.all(j)
	}
	return work(ctx, p.l, &j), nil
}

// run lets the implementations take turns, each with the servers for itself.
func (c contest) run(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord(c.id, n)
	return r, withParties(ctx, p, r, c, func(round int, x *party, srv *servers) error {
		name := fmt.Sprintf("%s-%s-%d", c.id, x.m.name, round)
		o, err := x.fight(ctx, c, name, p.fight)
		if err != nil {
			return err
		}
		f := r.foundBy(x, o)
		took := time.Duration(slices.MaxFunc(o.Stays, byLeft).Left - slices.MinFunc(o.Stays, byLeft).Left)
		r.add(mGap, x.m.name, micros(f.gaps, 0.5))
		r.add(mFair, x.m.name, f.fair)
		r.add(mLongest, x.m.name, millis(f.longest))
		r.add(mTaken, x.m.name, float64(len(o.Stays))/took.Seconds())
		w, err := listen(ctx, srv.addrs)
		if err != nil {
			return err
		}
		if o, err = x.fight(ctx, c, name+"-counted", p.fight/4); err == nil {
			r.foundBy(x, o)
			w.count(r, x.m.name, len(o.Stays))
		}
		w.stop()
		return err
	})
}

func byLeft(a, b stay) int { return int(a.Left - b.Left) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// foundBy judges an outcome, and notes what must not be.
func (r *record) foundBy(x *party, o *outcome) finding {
	f := o.judge(x.wants)
	if f.overlaps > 0 {
		r.problem("%s: %d overlaps in %d acquisitions", x.m.name, f.overlaps, len(o.Stays))
	}
	if o.Failed > 0 && x.m.name == nameRedlock {
		r.problem("%s: %d of %d failed, the first with: %s", x.m.name, o.Failed, o.Failed+len(o.Stays), o.Err)
	}
	if len(o.Stays) == 0 {
		r.problem("%s: the name was never acquired", x.m.name)
		o.Stays = append(o.Stays, stay{})
	}
	return f
}

// withParties starts servers and, on the same ones, all implementations; f has
// them take turns. redsync's fail-fast variant waits as its default does, and is
// left out.
func withParties(ctx context.Context, p *plan, r *record, c contest, f func(round int, x *party, srv *servers) error) error {
	srv, err := startServers(ctx, r.N)
	if err != nil {
		return err
	}
	defer func() { _ = srv.close() }()
	var all []*party
	for _, m := range p.at(r.N) {
		if m.name == nameFailFast {
			continue
		}
		x, err := c.open(ctx, m, srv.addrs)
		if err != nil {
			return err
		}
		defer x.close()
		if _, err = x.fight(ctx, c, c.id+"-"+m.name+"-warm", p.fight/8); err != nil {
			return err
		}
		all = append(all, x)
	}
	for round := range p.rounds {
		for i := range all {
			if err := f(round, all[(i+round)%len(all)], srv); err != nil {
				return err
			}
		}
	}
	for _, x := range all {
		r.countKeys(ctx, srv, x.m, c.id+"-"+x.m.name+"-")
	}
	return nil
}

// runS3e is one holder and one waiter in another process, who change roles.
func runS3e(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S3e", n)
	c := contest{id: r.Scenario, processes: 2, workers: 1}
	return r, withParties(ctx, p, r, c, func(round int, x *party, srv *servers) error {
		k := p.handovers
		if x.m.polls {
			k = max(k/4, 1)
		}
		var gaps []time.Duration
		for i := range k {
			gap, err := x.handOver(r, round, i)
			if err != nil {
				return err
			}
			gaps = append(gaps, gap...)
		}
		r.add(mGap, x.m.name, micros(gaps, 0.5))
		r.add(mGap99, x.m.name, micros(gaps, 0.99))
		w, err := listen(ctx, srv.addrs)
		if err != nil {
			return err
		}
		for i := 0; i < max(k/4, 1) && err == nil; i++ {
			_, err = x.handOver(r, round, k+i)
		}
		w.count(r, x.m.name, max(k/4, 1))
		return err
	})
}

// handOver has one process hold a fresh name while the other asks for it, and
// says how long after the release that one had it.
func (x *party) handOver(r *record, round, i int) ([]time.Duration, error) {
	start := now() + stamp(2*time.Millisecond)
	name := "S3e-" + x.m.name + "-" + strconv.Itoa(round) + "-" + strconv.Itoa(i)
	holder := &job{Name: name, Workers: 1, Count: 1, Start: start, Hold: 20 * time.Millisecond}
	waiter := &job{Name: name, Workers: 1, Count: 1, Start: start + stamp(8*time.Millisecond)}
	jobs := []*job{holder, waiter}
	if i%2 == 1 {
		jobs = []*job{waiter, holder}
	}
	o, err := x.crew.do(jobs)
	if err != nil {
		return nil, err
	}
	return r.foundBy(x, o).gaps, nil
}
