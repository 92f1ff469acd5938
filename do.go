package redlock

import (
	"context"
	"errors"
)

// Do runs fn while it holds name (promise P5). fn's context ends with ctx or
// with the lease, whichever is first, with the cause kept. Do waits for fn and
// then releases, also on a panic, which it lets pass, and on Goexit.
//
// It returns nil only if fn returned nil and the lease was valid when it did;
// otherwise fn's error joined with the *[LostError]. Of a release that found no
// majority it says nothing: the key dies with its TTL, and a hook tells. The
// errors of Acquire are returned as they are, and fn is not run then.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...LockOption) error {
	lease, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// do runs fn under the lease and releases it.
func (le *Lease) do(ctx context.Context, fn func(ctx context.Context) error) error {
	finished := false
	defer func() {
		if !finished { // a panic or Goexit goes on its way
			_ = le.Release(ctx)
		}
	}()
	fnErr := le.run(ctx, fn)
	finished = true
	lost := le.Err()
	if gone, ok := errors.AsType[*LostError](le.Release(ctx)); ok && lost == nil {
		lost = gone
	}
	switch {
	case lost == nil:
		return fnErr
	case fnErr == nil:
		return lost
	case errors.Is(fnErr, lost):
		return fnErr
	}
	return errors.Join(fnErr, lost)
}

// run gives fn a context that ends with the caller's or with the lease.
func (le *Lease) run(ctx context.Context, fn func(ctx context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	held := le.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer func() {
		stop()
		cancel(nil)
	}()
	return fn(&leaseContext{Context: inner, lease: le, cancel: cancel})
}

// Guard wraps fn so that every call holds the name that key computes from its
// argument: per-product, per-user, per-order. An argument that is empty makes a
// name that is refused, before fn is run. The errors are those of [Locker.Do].
func Guard[A, R any](
	l *Locker, key func(A) string, fn func(context.Context, A) (R, error), opts ...LockOption,
) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (out R, err error) {
		err = l.Do(ctx, key(arg), func(ctx context.Context) error {
			var fnErr error
			out, fnErr = fn(ctx, arg)
			return fnErr
		}, opts...)
		return out, err
	}
}
