// Package attack is the chaos engine: client processes that lock and release
// while nodes are killed, hung, cut off and made to forget, by a schedule that
// depends on nothing but a seed. What the clients saw is put before the judge.
package attack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/judge"
)

// Profile says what the run is to show.
type Profile string

// The profiles. Assume breaks what the lock is made for: a minority at a time,
// where a node that forgot counts until its quarantine is over. No rule may be
// broken. Beyond breaks the assumptions, majorities of nodes under clients
// without quarantine. The judge has to see it, or it would see nothing.
const (
	Assume Profile = "assume"
	Beyond Profile = "beyond"
)

// Config is an attack. The zero values are the defaults.
type Config struct {
	// Nodes is how many redis-servers are started for the attack. Zero: URLs.
	Nodes int
	// URLs are a user's own nodes. They are never stopped, flushed or
	// reconfigured: what fails is the way to them. All keys of the attack have a
	// prefix of its own, and are removed at the end.
	URLs []string

	Clients     int           // processes; 4
	Workers     int           // per client; 4
	Names       int           // of locks; 4
	TTL         time.Duration // also the max TTL; 1 s
	NodeTimeout time.Duration // 0: the Locker's own
	For         time.Duration // 60 s, with Quiet
	Quiet       time.Duration // without faults at the end; what progress needs, or a quarter of For if that is too short; a tenth for Beyond
	Profile     Profile       // Assume
	Seed        uint64        // of the schedule

	// Dir is where the history is kept if a rule was broken, or nothing was
	// granted. Without it, it goes to a new temporary folder, but only if the
	// profile did not want it so.
	Dir string
	// Progress is called several times a second, if it is set.
	Progress func(Snapshot)
}

// Snapshot is how far a run is.
type Snapshot struct {
	Phase   string // "starting", "faults", "quiet", "settling" or "judging"
	Elapsed time.Duration
	For     time.Duration
	Grants  int
	Faults  int // so far
	Active  int // faults that are not undone yet
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&c.Clients, 4)
	set(&c.Workers, 4)
	set(&c.Names, 4)
	if c.TTL == 0 {
		c.TTL = time.Second
	}
	if c.For == 0 {
		c.For = time.Minute
	}
	if c.Profile == "" {
		c.Profile = Assume
	}
	switch {
	case c.Quiet != 0:
	case c.Profile == Beyond: // whose faults are what it is about
		c.Quiet = c.For / 10
	default:
		if c.Quiet = c.bound().All + 500*time.Millisecond; c.Quiet > c.For/2 {
			c.Quiet = c.For / 4
		}
	}
	return c
}

// check refuses what cannot be run.
func (c Config) check() error {
	switch {
	case (c.Nodes > 0) == (len(c.URLs) > 0):
		return errors.New("attack: either servers of our own or URLs")
	case c.size() < 3 || c.size() > 15:
		return fmt.Errorf("attack: %d nodes; 3 to 15 are needed for a minority that can fail", c.size())
	case c.Profile != Assume && c.Profile != Beyond:
		return fmt.Errorf("attack: profile %q is none", c.Profile)
	case c.Profile == Beyond && !c.own():
		return errors.New("attack: profile beyond makes majorities forget, which needs servers of our own")
	case min(c.Clients, c.Workers, c.Names) < 1 || c.TTL < 100*time.Millisecond || c.For < 2*time.Second || c.Quiet < 0 || c.Quiet >= c.For:
		return errors.New("attack: at least one client, worker and name, a TTL of 100ms, and 2s with a quiet part that is shorter")
	}
	return nil
}

// own says whether the servers are ours to break.
func (c Config) own() bool { return c.Nodes > 0 }

// size is N.
func (c Config) size() int {
	if c.own() {
		return c.Nodes
	}
	return len(c.URLs)
}

// bound is how long a name may take to be granted once all faults are over:
// every node may have begun its quarantine just then.
func (c Config) bound() judge.Bound {
	const slack = 2 * time.Second
	return judge.Bound{All: c.TTL + quarantine(c.TTL) + slack, Slack: slack}
}

// run is one attack under way.
type run struct {
	c        Config
	clock    clock
	field    *field
	fleet    *fleet
	schedule []Fault
	began    time.Duration // of the schedule, on the clock

	mu      sync.Mutex
	phase   string
	busy    []bool // nodes that count as faulty
	active  int
	done    []FaultRecord
	skipped int
	err     error // the first that voids the run
}

// Run attacks, and says what came of it. An error means that there is no
// verdict; a violation is none.
func Run(ctx context.Context, c Config) (Result, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return Result{}, err
	}
	origin, err := monotonic()
	if err != nil {
		return Result{}, err
	}
	r := &run{c: c, schedule: Schedule(c.Seed, c), busy: make([]bool, c.size()), phase: "starting"}
	if r.clock, err = newClock(origin); err != nil {
		return Result{}, err
	}
	if r.field, err = newField(ctx, c); err != nil {
		return Result{}, err
	}
	defer r.field.close()
	if r.fleet, err = newFleet(r); err != nil {
		return Result{}, err
	}
	defer r.fleet.close()
	stop := r.report()
	defer stop()
	return r.play(ctx)
}

// play is the run from the first client to the verdict.
func (r *run) play(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.fleet.onDeath = cancel // a client that dies by itself ends the run
	if err := r.fleet.startAll(ctx); err != nil {
		return Result{}, err
	}
	r.began = r.clock.now()
	r.enter("faults")
	r.storm(ctx)
	r.enter("quiet")
	// The quiet part is not cut short by faults that took longer to undo.
	quiet := judge.Window{From: r.clock.now()}
	_ = sleep(ctx, max(r.c.For-(quiet.From-r.began), r.c.Quiet))
	quiet.To = r.clock.now()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	r.enter("settling")
	h, err := r.fleet.stopAll()
	if err != nil {
		return Result{}, err
	}
	seconds := r.clock.now() - r.began
	// A key may live for a TTL after the last operation, and one that was late
	// for as long again.
	if err := sleep(ctx, 2*r.c.TTL+200*time.Millisecond); err != nil {
		return Result{}, context.Cause(ctx)
	}
	left, err := r.field.leftovers(ctx, r.clock)
	if err == nil {
		err = r.failure()
	}
	if err != nil {
		return Result{}, err
	}
	r.enter("judging")
	o := judge.Options{TTL: r.c.TTL, Leftovers: left, Quiet: []judge.Window{quiet}, Bound: r.c.bound()}
	return r.result(h, judge.Judge(h, o), quiet, seconds)
}

// options are what every client of a run shares, and who prepares it.
func (c Config) options() []redlock.Option {
	opts := []redlock.Option{redlock.WithTTL(c.TTL), redlock.WithMaxTTL(c.TTL), redlock.WithLogger(quietLog())}
	if c.NodeTimeout > 0 {
		opts = append(opts, redlock.WithNodeTimeout(c.NodeTimeout))
	}
	if c.Profile == Beyond {
		opts = append(opts, redlock.WithBestEffort())
	}
	return opts
}

func (r *run) enter(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// fail notes what voids the run.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// report calls Progress until it is stopped.
func (r *run) report() (stop func()) {
	if r.c.Progress == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		start := time.Now()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			r.mu.Lock()
			s := Snapshot{Phase: r.phase, Elapsed: time.Since(start), For: r.c.For, Faults: len(r.done) + r.active, Active: r.active}
			r.mu.Unlock()
			s.Grants = r.fleet.grants()
			r.c.Progress(s)
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// sleep waits, or ends with the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
