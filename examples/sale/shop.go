package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

// ErrSoldOut is a product without stock.
var ErrSoldOut = errors.New("sold out")

// Order is one customer's wish.
type Order struct {
	ID      int
	Product string
}

// Shop is a database that all servers of the shop share. Looking whether there
// is stock and taking an item are two steps, with time between them: that is
// the whole trouble.
type Shop struct {
	stock map[string]*atomic.Int64
	sold  map[string]*atomic.Int64
	think time.Duration
}

// NewShop has some stock of each product.
func NewShop(stock map[string]int64, think time.Duration) *Shop {
	s := &Shop{stock: map[string]*atomic.Int64{}, sold: map[string]*atomic.Int64{}, think: think}
	for product, n := range stock {
		s.stock[product], s.sold[product] = &atomic.Int64{}, &atomic.Int64{}
		s.stock[product].Store(n)
	}
	return s
}

// Sold is how many of a product were sold.
func (s *Shop) Sold(product string) int64 { return s.sold[product].Load() }

// take is the critical section: check, think, act. Nothing in it keeps two
// servers apart.
func (s *Shop) take(ctx context.Context, o Order) (Order, error) {
	left := s.stock[o.Product].Load()
	if left <= 0 {
		return o, fmt.Errorf("%s: %w", o.Product, ErrSoldOut)
	}
	pause(ctx, s.think)
	if err := ctx.Err(); err != nil {
		return o, err // the lease is gone: what was read may be stale
	}
	s.stock[o.Product].Store(left - 1)
	s.sold[o.Product].Add(1)
	return o, nil
}

// pause is work that takes time and can be called off.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// The keys: what a name is made of decides what is kept apart.

// perProduct is the right one: buyers of one product queue up, others pass.
func perProduct(o Order) string { return "product:" + o.Product }

// perOrder is too narrow: no two orders ever meet, so nothing is guarded.
func perOrder(o Order) string { return fmt.Sprint("order:", o.ID) }

// wholeShop is too wide: everybody waits for everybody.
func wholeShop(Order) string { return "shop" }

// Seller sells one order.
type Seller func(context.Context, Order) (Order, error)

// Locked guards the critical section with a lock whose name is computed from
// the order. Two settings that other libraries take as tryLock(waitTime,
// leaseTime) stay apart: WithWait is how long a buyer is willing to wait
// (for ever, unless it is given), WithTTL how fast a crashed server's lock is
// noticed. The lease itself is renewed for as long as the work takes.
func (s *Shop) Locked(l *redlock.Locker, key func(Order) string, opts ...redlock.LockOption) Seller {
	return redlock.Guard(l, key, s.take, opts...)
}
