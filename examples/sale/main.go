// Command sale sells the last items of a shop on several servers at once: with
// a mutex per server, with a lock per product, and in the wrong ways.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
)

const (
	servers = 4
	buyers  = 120
	stock   = 10
	think   = time.Millisecond
)

// products are what is on sale; nothing writes to them.
var products = [...]string{"poster", "photo card", "calendar"}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// way is one way to sell.
type way struct {
	name   string
	seller func(*Shop, *redlock.Locker) Seller
}

func ways() []way {
	return []way{
		{"a mutex in every server", func(s *Shop, _ *redlock.Locker) Seller { return oneMutex(s) }},
		{"lock per product", func(s *Shop, l *redlock.Locker) Seller { return s.Locked(l, perProduct) }},
		{"lock per order (too narrow)", func(s *Shop, l *redlock.Locker) Seller { return s.Locked(l, perOrder) }},
		{"one lock for the shop (too wide)", func(s *Shop, l *redlock.Locker) Seller { return s.Locked(l, wholeShop) }},
	}
}

// oneMutex is what a single server would do. It guards its own process only.
// It is a channel and not a sync.Mutex so that the tests can run it in virtual
// time, which does not pass while a goroutine waits for a sync.Mutex.
func oneMutex(s *Shop) Seller {
	mu := make(chan struct{}, 1)
	return func(ctx context.Context, o Order) (Order, error) {
		mu <- struct{}{}
		defer func() { <-mu }()
		return s.take(ctx, o)
	}
}

func run(ctx context.Context, out *os.File) error {
	fmt.Fprintf(out, "%d buyers at %d servers want the last %d of each of %d products.\n\n", buyers, servers, stock, len(products))
	fmt.Fprintf(out, "%-34s %6s %6s %9s %9s\n", "", "stock", "sold", "oversold", "took")
	for _, w := range ways() {
		start := time.Now()
		sold, err := sell(ctx, w)
		if err != nil {
			return err
		}
		all := int64(stock * len(products))
		fmt.Fprintf(out, "%-34s %6d %6d %9d %9v\n", w.name, all, sold, max(0, sold-all), time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// sell lets all buyers loose and counts what was sold.
func sell(ctx context.Context, w way) (sold int64, err error) {
	shop := NewShop(map[string]int64{products[0]: stock, products[1]: stock, products[2]: stock}, think)
	nodes := []*memnode.Node{memnode.New("redis1", nil), memnode.New("redis2", nil), memnode.New("redis3", nil)}
	var sellers []Seller
	for i := range servers {
		var voters []redlock.Node
		for _, n := range nodes {
			voters = append(voters, redlock.NodeOver(n.Dialer()))
		}
		l, err := redlock.New(voters, redlock.WithBackoff(redlock.FullJitter(time.Millisecond, 20*time.Millisecond)))
		if err != nil {
			return 0, err
		}
		defer l.Close()
		if i == 0 {
			if err := l.Init(ctx); err != nil {
				return 0, err
			}
		}
		sellers = append(sellers, w.seller(shop, l))
	}
	if err := rush(ctx, sellers); err != nil {
		return 0, err
	}
	for _, p := range products {
		sold += shop.Sold(p)
	}
	return sold, nil
}

// rush sends every buyer to a server, all at once.
func rush(ctx context.Context, sellers []Seller) error {
	var wg sync.WaitGroup
	errs := make([]error, buyers)
	for i := range buyers {
		wg.Go(func() {
			o := Order{ID: i, Product: products[i%len(products)]}
			if _, err := sellers[i%len(sellers)](ctx, o); !errors.Is(err, ErrSoldOut) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
