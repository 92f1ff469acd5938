package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

// demoServers is on how many servers the shop runs.
const demoServers = 4

// shop is a database with the stock, and a sale on it. Reading the stock and
// writing it back are two steps, as in every shop that sold the last item twice.
type shop struct {
	stock  []atomic.Int64 // per product
	inside []atomic.Int64 // who is between the two steps: the independent judge
	buyers []int          // the product that each buyer wants

	total    atomic.Int64
	overlaps atomic.Int64
	errors   atomic.Int64

	mu    sync.Mutex
	first error
	sale  chan struct{} // something was sold; the fault plan looks
	over  chan struct{} // the sale is over
}

func newShop(c *demoCmd) *shop {
	s := &shop{
		stock: make([]atomic.Int64, c.Products), inside: make([]atomic.Int64, c.Products),
		sale: make(chan struct{}, 1), over: make(chan struct{}),
	}
	for i := range c.Stock {
		s.stock[i%c.Products].Add(1)
	}
	// Every product has more buyers than items; who comes when is random.
	for i := range c.Buyers {
		s.buyers = append(s.buyers, i%c.Products)
	}
	rnd := rand.New(rand.NewPCG(c.Seed, 1))
	rnd.Shuffle(len(s.buyers), func(i, j int) { s.buyers[i], s.buyers[j] = s.buyers[j], s.buyers[i] })
	return s
}

func (s *shop) sold() int { return int(s.total.Load()) }

// think is the time between reading the stock and writing it.
const think = time.Millisecond

// sell is the critical section: check, then act.
func (s *shop) sell(product int) {
	if s.inside[product].Add(1) > 1 {
		s.overlaps.Add(1)
	}
	defer s.inside[product].Add(-1)
	left := s.stock[product].Load()
	if left <= 0 {
		return
	}
	t := time.NewTimer(think)
	<-t.C
	s.stock[product].Store(left - 1)
	s.total.Add(1)
	select {
	case s.sale <- struct{}{}:
	default:
	}
}

// sellUnlocked lets every server guard its own process with a mutex. The first
// buyers of the servers meet between the two steps, so it oversells every time.
func (s *shop) sellUnlocked() {
	var meet, all sync.WaitGroup
	meet.Add(demoServers)
	for server := range demoServers {
		all.Go(func() {
			var mu sync.Mutex // one per server: it knows nothing of the others
			meet.Done()
			meet.Wait()
			for i, product := range s.buyers {
				if i%demoServers == server {
					mu.Lock()
					s.sell(product)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
}

// sellLocked lets every buyer hold the product's name while it buys.
func (s *shop) sellLocked(ctx context.Context, lockers []*redlock.Locker) {
	defer close(s.over)
	buy := make([]func(context.Context, int) (struct{}, error), len(lockers))
	for i, l := range lockers {
		buy[i] = redlock.Guard(l, func(product int) string { return fmt.Sprint("product:", product) },
			func(_ context.Context, product int) (struct{}, error) {
				s.sell(product)
				return struct{}{}, nil
			})
	}
	var all sync.WaitGroup
	for i, product := range s.buyers {
		all.Go(func() {
			if s.stock[product].Load() <= 0 {
				return // the page says so already
			}
			if _, err := buy[i%len(buy)](ctx, product); err != nil {
				s.fail(err)
			}
		})
	}
	all.Wait()
}

// fail keeps the first error.
func (s *shop) fail(err error) {
	s.errors.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = err
	}
}

func (s *shop) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.first, redlock.ErrLost) {
		return nil // counted, and judged by what was sold
	}
	return s.first
}

// await waits until so many are sold; false when the sale ended before.
func (s *shop) await(ctx context.Context, sold int) bool {
	for s.sold() < sold {
		select {
		case <-s.sale:
		case <-s.over:
			return s.sold() >= sold
		case <-ctx.Done():
			return false
		}
	}
	return true
}
