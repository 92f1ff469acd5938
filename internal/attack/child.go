package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/judge"
)

// childEnv makes this process a client of an attack. What it is to do comes on
// its standard input, since addresses may bear passwords.
const childEnv = "REDLOCK_ATTACK_CHILD"

// order is what a client process is told.
type order struct {
	Client      string        `json:"client"`
	File        string        `json:"file"` // where the history goes
	Nodes       []doorway     `json:"nodes"`
	Prefix      string        `json:"prefix"`
	Names       int           `json:"names"`
	Workers     int           `json:"workers"`
	TTL         time.Duration `json:"ttl"`
	NodeTimeout time.Duration `json:"node_timeout"`
	Profile     Profile       `json:"profile"`
	Origin      time.Duration `json:"origin"` // of the history's clock
}

// doorway is a node and the proxy before it.
type doorway struct {
	URL   string `json:"url"`
	Proxy string `json:"proxy"`
}

// lockName is the i-th lock of an attack.
func lockName(i int) string { return fmt.Sprintf("chaos-%d", i) }

// ChildMain is the main of a client process, which is this binary, started
// again. It reports whether the process was one; then its work is done, and the
// caller ends. A failure ends the process with status 1. Call it first thing in
// main, and in TestMain of tests that attack.
func ChildMain() bool {
	if os.Getenv(childEnv) == "" {
		return false
	}
	if err := childMain(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "attack client:", err)
		os.Exit(1)
	}
	return true
}

// childMain locks and releases until its input ends, which it also does when
// the parent dies. On out it says how many grants there were, from time to time.
func childMain(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	now, err := newClock(o.Origin)
	if err != nil {
		return err
	}
	file, err := os.Create(o.File)
	if err != nil {
		return err
	}
	c := &client{o: &o, clock: now, rec: &recorder{file: file}, open: make(map[string]*holding), last: make(map[string]grant)}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(nil)
	}()
	return errors.Join(c.run(ctx, cancel, out), c.rec.close())
}

// client is a client process at work.
type client struct {
	o      *order
	clock  clock
	rec    *recorder
	locker *redlock.Locker
	grants atomic.Int64

	mu   sync.Mutex
	open map[string]*holding // the newest of each name, for renewals
	last map[string]grant    // the newest of each name, to tell a lease that was handed over
}

// grant is the token of a lease and how many leases had it before.
type grant struct {
	token string
	n     int
}

func (c *client) run(ctx context.Context, cancel context.CancelCauseFunc, out io.Writer) error {
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	cfg := Config{TTL: c.o.TTL, NodeTimeout: c.o.NodeTimeout, Profile: c.o.Profile}
	c.locker, err = redlock.New(nodes, append(cfg.options(), redlock.WithKeyPrefix(c.o.Prefix), redlock.WithWait(2*c.o.TTL),
		redlock.WithHooks(redlock.Hooks{Renewed: c.renewed}))...)
	if err != nil {
		return err
	}
	var working, telling sync.WaitGroup
	for i := range c.o.Workers {
		w := &worker{client: c, name: fmt.Sprintf("%s/w%d", c.o.Client, i+1)}
		working.Go(func() {
			for ctx.Err() == nil {
				if err := w.once(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	quit := make(chan struct{})
	telling.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			fmt.Fprintln(out, c.grants.Load())
			select {
			case <-tick.C:
			case <-quit:
				fmt.Fprintln(out, c.grants.Load())
				return
			}
		}
	})
	working.Wait()
	close(quit)
	telling.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return errors.Join(err, c.locker.Close())
	}
	return c.locker.Close()
}

// nodes are the voters, each dialled through its proxy. TLS is with the node
// itself: the certificate has its name.
func (c *client) nodes() ([]redlock.Node, error) {
	var nodes []redlock.Node
	for _, d := range c.o.Nodes {
		parsed, err := redlock.ParseNodes(d.URL)
		if err != nil {
			return nil, err
		}
		opt, ok := parsed[0].Options()
		if !ok {
			return nil, fmt.Errorf("node %s is no Redis master", parsed[0])
		}
		through := *opt
		if through.TLSConfig != nil && through.TLSConfig.ServerName == "" {
			host, _, err := net.SplitHostPort(opt.Addr)
			if err != nil {
				return nil, err
			}
			through.TLSConfig = withServerName(through.TLSConfig, host)
		}
		dial := redis.NewDialer(&through)
		through.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "tcp", d.Proxy) }
		nodes = append(nodes, redlock.Master(&through))
	}
	return nodes, nil
}

func withServerName(c *tls.Config, host string) *tls.Config {
	c = c.Clone()
	c.ServerName = host
	return c
}

// holding is a lease and which of its validities are written down.
type holding struct {
	lease    *redlock.Lease
	op       judge.Op // of the client, name and token
	acquired time.Duration
	mu       sync.Mutex
	noted    map[time.Duration]bool
}

// renewed writes down a renewal. The event does not say whose it is, only the
// name; it counts for the newest lease of that name if that is valid as long, and
// then it is true of it, whoever renewed.
func (c *client) renewed(e redlock.RenewEvent) {
	if e.Err != nil {
		return
	}
	for _, name := range e.Names {
		c.mu.Lock()
		h := c.open[name]
		c.mu.Unlock()
		if h != nil && !e.Until.After(h.lease.Until()) {
			c.extended(h, e.Until)
		}
	}
}

// extended writes down a validity, once. It was confirmed by a round that began
// a TTL less the drift before it, however late this is: that is exact, where
// what the event says of its time depends on when it is called.
func (c *client) extended(h *holding, until time.Time) {
	o := h.op
	o.Kind, o.Outcome, o.Until = judge.Extend, judge.OK, c.clock.of(until)
	h.mu.Lock()
	again := h.noted[o.Until] || o.Until <= h.acquired
	h.noted[o.Until] = true
	h.mu.Unlock()
	if again {
		return
	}
	drift := time.Duration(math.Ceil(float64(c.o.TTL)*0.01)) + 2*time.Millisecond
	o.Start, o.End = max(0, o.Until-c.o.TTL+drift-anchorSlack), c.clock.now()
	c.rec.done(o)
}

// worker is one goroutine of a client: it does one thing at a time.
type worker struct {
	*client

	name string
}

// once is one acquisition and what follows. An error is one that no fault
// explains.
func (w *worker) once(ctx context.Context) error {
	o := judge.Op{Client: w.name, Kind: judge.Acquire, Name: lockName(rand.IntN(w.o.Names)), Start: w.clock.now()}
	w.rec.begin(o)
	lease, err := w.locker.Acquire(ctx, o.Name)
	o.End = w.clock.now()
	if err != nil {
		o.Outcome = judge.Failed
		w.rec.done(o)
		if errors.Is(err, redlock.ErrConfig) {
			return err
		}
		_ = sleep(ctx, time.Duration(rand.IntN(20))*time.Millisecond) // it may have failed at once
		return nil
	}
	o.Outcome, o.Token, o.Until = judge.OK, w.granted(o.Name, lease.Token()), w.clock.of(lease.Until())
	w.rec.done(o)
	w.grants.Add(1)
	h := &holding{lease: lease, op: o, acquired: o.Until, noted: make(map[time.Duration]bool)}
	h.op.Until = 0
	w.mu.Lock()
	w.open[o.Name] = h
	w.mu.Unlock()
	w.hold(ctx, h)
	w.release(h)
	return nil
}

// granted is what the history calls the token of a new lease. A lease that is handed
// over inside a process keeps the token of the one before.
func (c *client) granted(name, token string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.last[name]; was.token == token {
		c.last[name] = grant{token, was.n + 1}
		return judge.HandedOver(token, was.n+1)
	}
	c.last[name] = grant{token: token}
	return token
}

// length of a hold: mostly short, so that there are many, and sometimes longer
// than the TTL, so that renewals have to carry the lease.
func (w *worker) length() time.Duration {
	if rand.IntN(25) == 0 {
		return w.o.TTL * 3 / 2
	}
	return time.Duration(math.Exp(rand.Float64()*math.Log(300)) * float64(time.Millisecond))
}

// hold relies on a lease, and looks at random moments whether it may still.
func (w *worker) hold(ctx context.Context, h *holding) {
	end := time.NewTimer(w.length())
	defer end.Stop()
	for w.look(h) {
		next := time.NewTimer(time.Duration(rand.Int64N(int64(w.o.TTL / 4))))
		select {
		case <-next.C:
			continue
		case <-h.lease.Context().Done():
			o := h.op
			o.Kind, o.Outcome, o.Start = judge.Lost, judge.OK, w.clock.now()
			o.End = o.Start
			w.rec.done(o)
		case <-end.C:
			_ = w.look(h)
		case <-ctx.Done():
		}
		next.Stop()
		return
	}
}

// look asks the lease whether it is alive, and writes that down.
func (w *worker) look(h *holding) bool {
	o := h.op
	o.Kind, o.Outcome, o.Start = judge.Check, judge.OK, w.clock.now()
	if h.lease.Err() != nil {
		o.Outcome = judge.Failed
	}
	o.End = w.clock.now()
	w.extended(h, h.lease.Until()) // before the look that relied on it
	w.rec.done(o)
	return o.Outcome == judge.OK
}

// release ends a hold. The start is noted first: from then on the lease is not
// relied on, whatever becomes of the call.
func (w *worker) release(h *holding) {
	w.extended(h, h.lease.Until())
	o := h.op
	o.Kind, o.Start = judge.Release, w.clock.now()
	w.rec.begin(o)
	err := h.lease.Release(context.Background())
	o.End = w.clock.now()
	switch {
	case err == nil:
		o.Outcome = judge.OK
	case errors.Is(err, redlock.ErrNoQuorum):
		o.Outcome = judge.Unknown
	default:
		o.Outcome = judge.Failed
	}
	w.rec.done(o)
}
