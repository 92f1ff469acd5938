package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrDeclined is a payment that the bank refused.
var ErrDeclined = errors.New("payment declined")

// Bank takes its time.
type Bank struct {
	Takes   time.Duration
	Decline bool
}

// Pay is an answer that may come late, from somebody else's machine.
func (b *Bank) Pay(ctx context.Context, _ Order) error {
	pause(ctx, b.Takes)
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.Decline {
		return ErrDeclined
	}
	return nil
}

// Checkout buys one item the right way: the item is reserved under the lock,
// which takes a moment; the bank is asked outside it, which may take for ever;
// and if the bank refuses, the stock rises again by one atomic step, which
// needs no lock.
func (s *Shop) Checkout(ctx context.Context, reserve Seller, bank *Bank, o Order) error {
	if _, err := reserve(ctx, o); err != nil {
		return err
	}
	if err := bank.Pay(ctx, o); err != nil {
		s.sold[o.Product].Add(-1)
		s.stock[o.Product].Add(1)
		return fmt.Errorf("order %d: %w", o.ID, err)
	}
	return nil
}

// payInside is the wrong way: the lock is held while the bank thinks. Without
// renewal the lease ends under the payment, and somebody else is let in.
func (s *Shop) payInside(bank *Bank) Seller {
	return func(ctx context.Context, o Order) (Order, error) {
		if err := bank.Pay(ctx, o); err != nil {
			return o, err
		}
		return s.take(ctx, o)
	}
}
