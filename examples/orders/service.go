package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redlock-go/redlock"
)

// ErrBusy is an order that another server is processing.
var ErrBusy = errors.New("another server is processing this order")

// OrderService processes each order on one server at a time.
type OrderService struct {
	Locker *redlock.Locker
	Log    *slog.Logger
	// Work is what is done for an order. It should stop when ctx ends.
	Work func(ctx context.Context, orderID int) error
}

// Process does the work for an order, unless another server does it already: it
// is refused at once then, since that server will finish it.
func (s *OrderService) Process(ctx context.Context, orderID int) (err error) {
	lease, err := s.Locker.TryAcquire(ctx, fmt.Sprint("order:", orderID))
	if errors.Is(err, redlock.ErrHeld) {
		return fmt.Errorf("order %d: %w", orderID, ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("order %d: %w", orderID, err) // no lock, no work
	}
	// Every path releases: a result, an error, a panic.
	defer func() {
		if released := lease.Release(ctx); errors.Is(released, redlock.ErrLost) {
			// Another server may have worked on the order at the same time.
			s.Log.Warn("the lease had ended before the work", "order", orderID, "error", released)
			err = errors.Join(err, released)
		}
	}()
	return s.Work(lease.Context(), orderID)
}
