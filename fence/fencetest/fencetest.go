// Package fencetest tests whether a resource refuses writers that are late: run it
// against yours.
//
//	func TestOrders(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) fencetest.Resource { return newOrders(t) })
//	}
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redlock-go/redlock/fence"
)

// Resource is what is tested: values under keys.
type Resource interface {
	// Write puts a value under the key for a holder with the number n. A stale
	// number is an error that Is [fence.ErrStale], a number that is none one that
	// Is [fence.ErrNumber]; neither changes anything.
	Write(ctx context.Context, key string, n uint64, value string) error
	// Read is the key's value, "" for none. It needs no number.
	Read(ctx context.Context, key string) (string, error)
}

// Reopener is a resource that outlives its process.
type Reopener interface {
	Resource
	// Reopen is the same resource as another process would open it.
	Reopen(ctx context.Context) (Resource, error)
}

// Run tests a resource: each test gets one that open makes, with no key in it, and
// which open's t cleans up. It is written to and read by up to 17 goroutines.
func Run(t *testing.T, open func(t *testing.T) Resource) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := open(t)
			if _, ok := r.(Reopener); c.reopens && !ok {
				t.Skip("the resource has no Reopen")
			}
			if err := c.test(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
}

// conformance is one rule, and how to see that it is kept.
type conformance struct {
	name    string
	reopens bool
	test    func(ctx context.Context, r Resource) error
}

var cases = []conformance{
	{name: "a holder writes more than once", test: repeats},
	{name: "a later holder writes, whatever numbers were left out", test: rises},
	{name: "a late holder changes nothing", test: refuses},
	{name: "a late holder that comes back does not lower the number", test: keeps},
	{name: "keys have numbers of their own", test: separates},
	{name: "what is no number is refused", test: numbers},
	{name: "numbers up to 2^53-1 are told apart", test: wide},
	{name: "looking and writing are one step", test: atomic},
	{name: "the number outlives the process", reopens: true, test: survives},
}

// step is a write and what has to come of it.
type step struct {
	key   string
	n     uint64
	value string
	want  error // nil, fence.ErrStale or fence.ErrNumber
	then  string
}

// play runs steps one after the other.
func play(ctx context.Context, r Resource, steps ...step) error {
	for _, s := range steps {
		err := r.Write(ctx, s.key, s.n, s.value)
		if !errors.Is(err, s.want) {
			return fmt.Errorf("write of %q to %q with %d: got error %v, want %v", s.value, s.key, s.n, err, s.want)
		}
		got, err := r.Read(ctx, s.key)
		if err != nil {
			return fmt.Errorf("read of %q: %w", s.key, err)
		}
		if got != s.then {
			return fmt.Errorf("after the write of %q to %q with %d the value is %q, want %q", s.value, s.key, s.n, got, s.then)
		}
	}
	return nil
}

func repeats(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 34, "one", nil, "one"}, step{"a", 34, "two", nil, "two"})
}

func rises(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 1, "one", nil, "one"}, step{"a", 2, "two", nil, "two"}, step{"a", 1_000_000_007, "three", nil, "three"})
}

func refuses(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 35, "new", nil, "new"}, step{"a", 34, "late", fence.ErrStale, "new"}, step{"a", 35, "newer", nil, "newer"})
}

func keeps(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 35, "new", nil, "new"}, step{"a", 7, "late", fence.ErrStale, "new"},
		step{"a", 7, "late", fence.ErrStale, "new"}, step{"a", 34, "late", fence.ErrStale, "new"})
}

func separates(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 35, "a", nil, "a"}, step{"b", 3, "b", nil, "b"}, step{"a", 34, "late", fence.ErrStale, "a"})
}

func numbers(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 0, "none", fence.ErrNumber, ""}, step{"a", fence.Most + 1, "much", fence.ErrNumber, ""},
		step{"a", 1, "one", nil, "one"}, step{"a", 0, "none", fence.ErrNumber, "one"})
}

func wide(ctx context.Context, r Resource) error {
	return play(ctx, r, step{"a", 1<<32 - 1, "low", nil, "low"}, step{"a", 1 << 32, "high", nil, "high"},
		step{"a", fence.Most - 1, "one", nil, "one"}, step{"a", fence.Most, "two", nil, "two"},
		step{"a", fence.Most - 1, "late", fence.ErrStale, "two"})
}

func survives(ctx context.Context, r Resource) error {
	if err := play(ctx, r, step{"a", 35, "new", nil, "new"}); err != nil {
		return err
	}
	again, err := r.(Reopener).Reopen(ctx)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	return play(ctx, again, step{"a", 34, "late", fence.ErrStale, "new"}, step{"a", 35, "newer", nil, "newer"})
}

const (
	writers = 16
	rounds  = 24
)

// atomic lets holders write at the same time, each with a number of its own, while
// one reads: the value may only ever become that of a higher number.
func atomic(ctx context.Context, r Resource) error {
	const key = "contended"
	var wg sync.WaitGroup
	errs := make(chan error, writers+1)
	start, stop := make(chan struct{}), make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			<-start
			for i := range rounds {
				n := uint64(1 + i*writers + (w*7+i*5)%writers) //nolint:gosec // small
				err := r.Write(ctx, key, n, fmt.Sprintf("%012d", n))
				if err != nil && !errors.Is(err, fence.ErrStale) {
					errs <- fmt.Errorf("write with %d beside others: %w", n, err)
					return
				}
			}
		})
	}
	read := make(chan error, 1)
	go func() { read <- watch(ctx, r, key, stop) }()
	close(start)
	wg.Wait()
	close(stop)
	if err := <-read; err != nil {
		return err
	}
	select {
	case err := <-errs:
		return err
	default:
	}
	return play(ctx, r, step{key, 1, "late", fence.ErrStale, fmt.Sprintf("%012d", writers*rounds)})
}

// watch reads until it is stopped, and reports a value that went back.
func watch(ctx context.Context, r Resource, key string, stop <-chan struct{}) error {
	last := ""
	for {
		got, err := r.Read(ctx, key)
		switch {
		case err != nil:
			return fmt.Errorf("read beside writers: %w", err)
		case got < last:
			return fmt.Errorf("a late write came through: the value went from %s back to %s", last, got)
		}
		last = got
		select {
		case <-stop:
			return nil
		default:
		}
	}
}
