package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redlock-go/redlock"
)

// demoCmd is the limited sale.
type demoCmd struct {
	Buyers     int    `help:"How many buyers come." default:"200" placeholder:"200"`
	Stock      int    `help:"How many items there are, over all products." default:"50" placeholder:"50"`
	Products   int    `help:"Over how many products they are spread." default:"3" placeholder:"3"`
	Seed       uint64 `help:"Decides who buys what, and which nodes fail." default:"1" placeholder:"N"`
	SelfHosted int    `help:"Use so many real redis-servers, started for the demo, instead of nodes in memory." default:"0" placeholder:"N" name:"self-hosted"`
}

// demoTTL is short, so that the quarantine of the node that forgets would end
// within seconds.
const demoTTL = time.Second

// demoJSON is the result.
type demoJSON struct {
	Stock               int         `json:"stock"`
	Buyers              int         `json:"buyers"`
	Products            int         `json:"products"`
	Nodes               int         `json:"nodes"`
	Kind                string      `json:"kind"`
	SoldWithoutLock     int         `json:"sold_without_lock"`
	OversoldWithoutLock int         `json:"oversold_without_lock"`
	Sold                int         `json:"sold"`
	Oversold            int         `json:"oversold"`
	Overlaps            int         `json:"overlaps"`
	Errors              int         `json:"errors"`
	Faults              []faultJSON `json:"faults"`
	Seconds             float64     `json:"seconds"`
}

type faultJSON struct {
	AtMillis int64  `json:"at_ms"`
	Sold     int    `json:"sold"`
	Node     string `json:"node"`
	What     string `json:"what"`
}

// check refuses numbers that tell no story.
func (c *demoCmd) check(a *app) error {
	if err := a.chooseField(&c.SelfHosted); err != nil {
		return err
	}
	switch {
	case c.Products < 1 || c.Products > 100:
		return &usageError{fmt.Sprintf("--products %d must be from 1 to 100", c.Products)}
	case c.Stock < c.Products || c.Stock > 10_000:
		return &usageError{fmt.Sprintf("--stock %d must be from the number of products, %d, to 10000", c.Stock, c.Products)}
	case c.Buyers < 2*c.Stock || c.Buyers > 100_000:
		return &usageError{fmt.Sprintf("--buyers %d must be at least twice the stock, %d, and at most 100000", c.Buyers, 2*c.Stock)}
	case c.SelfHosted != 0 && (c.SelfHosted < 3 || c.SelfHosted > 15):
		return &usageError{fmt.Sprintf("--self-hosted %d must be from 3 to 15", c.SelfHosted)}
	}
	return nil
}

// Run is for kong.
func (c *demoCmd) Run(a *app) error {
	if err := c.check(a); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(a.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop() // an interrupt still takes away what the demo wrote, and ends what it started
	a.ctx = ctx
	start := time.Now()
	field, err := a.field(c)
	if err != nil {
		return err
	}
	defer field.close()
	out, err := c.play(a, field)
	if err != nil {
		return err
	}
	out.Seconds = time.Since(start).Seconds()
	if a.flags.JSON {
		err = a.printJSON(out)
	} else {
		c.print(a, out)
	}
	if err == nil && (out.Sold != out.Stock || out.Overlaps > 0 || out.Errors > 0) {
		return exitError(exitFailed)
	}
	return err
}

// play runs the sale twice.
func (c *demoCmd) play(a *app, f *field) (*demoJSON, error) {
	out := &demoJSON{
		Stock: c.Stock, Buyers: c.Buyers, Products: c.Products,
		Nodes: len(f.nodes), Kind: f.kind, Faults: []faultJSON{},
	}
	p := newProgress(a)
	defer p.end()

	unlocked := newShop(c)
	p.show("without the lock: a mutex per server", unlocked)
	unlocked.sellUnlocked()
	p.stop()
	out.SoldWithoutLock = unlocked.sold()
	out.OversoldWithoutLock = out.SoldWithoutLock - c.Stock

	shop := newShop(c)
	lockers, err := c.servers(a, f)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	p.show("with the lock, while nodes fail", shop)
	faults := c.breakNodes(a.ctx, f, shop)
	shop.sellLocked(a.ctx, lockers)
	out.Faults = <-faults
	p.stop()
	out.Sold, out.Overlaps, out.Errors = shop.sold(), int(shop.overlaps.Load()), int(shop.errors.Load())
	out.Oversold = max(0, out.Sold-c.Stock)
	return out, errors.Join(a.ctx.Err(), shop.firstError())
}

// servers are the shop's servers: each has a Locker of its own, as processes on
// different machines have.
func (c *demoCmd) servers(a *app, f *field) ([]*redlock.Locker, error) {
	quiet := slog.New(slog.DiscardHandler) // what fails is on the screen
	var lockers []*redlock.Locker
	for range demoServers {
		l, err := redlock.New(f.nodes, redlock.WithTTL(demoTTL), redlock.WithMaxTTL(demoTTL),
			redlock.WithNodeTimeout(100*time.Millisecond), redlock.WithKeyPrefix(f.prefix), redlock.WithLogger(quiet),
			redlock.WithBackoff(redlock.FullJitter(2*time.Millisecond, 40*time.Millisecond)))
		if err != nil {
			closeAll(lockers)
			return nil, err
		}
		lockers = append(lockers, l)
	}
	if err := lockers[0].Init(a.ctx); err != nil {
		closeAll(lockers)
		return nil, err
	}
	return lockers, nil
}

func closeAll(lockers []*redlock.Locker) {
	for _, l := range lockers {
		_ = l.Close()
	}
}

// breakNodes kills one node when a third of the stock is sold, and lets another
// forget everything at two thirds.
func (c *demoCmd) breakNodes(ctx context.Context, f *field, s *shop) <-chan []faultJSON {
	rnd := rand.New(rand.NewPCG(c.Seed, 2))
	order := rnd.Perm(len(f.nodes))
	plan := []struct {
		at   int
		node int
		what string
		do   func(context.Context, int) error
	}{
		{max(1, c.Stock/3), order[0], f.killed, f.kill},
		{max(1, 2*c.Stock/3), order[1], f.forgot, f.forget},
	}
	start := time.Now()
	out := make(chan []faultJSON, 1)
	go func() {
		var faults []faultJSON
		defer func() { out <- faults }()
		for _, step := range plan {
			if !s.await(ctx, step.at) {
				return
			}
			sold := s.sold()
			if err := step.do(ctx, step.node); err != nil {
				s.fail(fmt.Errorf("breaking node %s: %w", f.nodes[step.node], err))
				return
			}
			faults = append(faults, faultJSON{
				AtMillis: time.Since(start).Milliseconds(), Sold: sold, Node: f.nodes[step.node].String(), What: step.what,
			})
		}
	}()
	return out
}

// print is the closing table.
func (c *demoCmd) print(a *app, out *demoJSON) {
	fmt.Fprintf(a.stdout, "%d buyers want the last %d items of %d products, at %d servers.\n\n", out.Buyers, out.Stock, out.Products, demoServers)
	verdict := func(sold int) string {
		switch {
		case sold > out.Stock:
			return fmt.Sprintf("OVERSOLD by %d", sold-out.Stock)
		case sold < out.Stock:
			return fmt.Sprintf("%d left over", out.Stock-sold)
		}
		return "exact"
	}
	a.table([][]string{
		{"", "STOCK", "SOLD", "VERDICT", "OVERLAPS"},
		{"a mutex in every server", fmt.Sprint(out.Stock), fmt.Sprint(out.SoldWithoutLock), verdict(out.SoldWithoutLock), ""},
		{"redlock on " + fmt.Sprint(out.Nodes) + " " + out.Kind, fmt.Sprint(out.Stock), fmt.Sprint(out.Sold), verdict(out.Sold), fmt.Sprint(out.Overlaps)},
	})
	fmt.Fprintln(a.stdout)
	for _, f := range out.Faults {
		fmt.Fprintf(a.stdout, "after %d of %d sold: %s %s\n", f.Sold, out.Stock, f.Node, f.What)
	}
	fmt.Fprintf(a.stdout, "%.1f s\n", out.Seconds)
}

// progress is a line on a terminal that shows how far the sale is. Elsewhere it
// shows nothing.
type progress struct {
	a    *app
	on   bool
	quit chan struct{}
	done chan struct{}
}

func newProgress(a *app) *progress {
	return &progress{a: a, on: terminal(a.rawStderr) >= 0 && !a.flags.JSON}
}

func (p *progress) show(what string, s *shop) {
	if !p.on {
		return
	}
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			fmt.Fprintf(p.a.stderr, "\r\x1b[K%s: %d sold", what, s.sold())
			select {
			case <-tick.C:
			case <-p.quit:
				fmt.Fprint(p.a.stderr, "\r\x1b[K")
				return
			}
		}
	}()
}

func (p *progress) stop() {
	if p.quit != nil {
		close(p.quit)
		<-p.done
		p.quit = nil
	}
}

func (p *progress) end() { p.stop() }
