package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// maxNames is how many names one lease may hold.
const maxNames = 128

// AcquireAll locks several names as one lease, all or none: at most 128 different
// ones. Each node grants all of them or none, so two callers that name the same in
// another order do not wait for each other for ever. It waits as Acquire does, but
// by trying again after the back-off, without a place in a line. With fencing the
// number is above every number of every name. On a Redis Cluster the names have to
// lie in one bucket, which [WithBucket] sees to; else the error is a *[ConfigError]
// that names the buckets. The other errors are those of Acquire.
func (l *Locker) AcquireAll(ctx context.Context, names []string, opts ...LockOption) (*Lease, error) {
	w := &waiting{l: l, o: l.set.lock}
	for _, name := range names {
		if !slices.Contains(w.all, name) {
			w.all = append(w.all, name)
		}
		if len(w.all) > maxNames {
			return nil, &ConfigError{"names", fmt.Sprint(len(names)), fmt.Sprintf("must be at most %d different ones", maxNames)}
		}
	}
	if len(w.all) == 0 {
		return nil, &ConfigError{"names", "none", "give at least one"}
	}
	for i, name := range w.all {
		if w.name = name; i > 0 {
			opts = nil // they were taken with the first
		}
		if err := w.options(ctx, opts); err != nil {
			return nil, err
		}
		if w.outer != nil {
			return nil, &ConfigError{"name", fmt.Sprintf("%q", name), "is held by the lease in this context; AcquireAll has no reentry"}
		}
		if err := w.apart(name); err != nil {
			return nil, err
		}
	}
	if w.name = w.all[0]; len(w.all) == 1 {
		w.all = nil
		return w.acquire(ctx)
	}
	return w.acquireAll(ctx)
}

// apart refuses a name that does not lie in the first one's bucket, on some Cluster.
func (w *waiting) apart(name string) error {
	if w.o.bucket != "" {
		return nil
	}
	for _, v := range w.l.voters {
		first, other := v.of(w.l.set.prefix+w.all[0]), v.of(w.l.set.prefix+name)
		if first != other {
			return &ConfigError{"names", fmt.Sprintf("%q in %s and %q in %s", w.all[0], first.n.name, name, other.n.name),
				"lie in different buckets of the Redis Cluster; give WithBucket to every call that locks them, or lock them one by one"}
		}
	}
	return nil
}

// WithBucket puts what a call locks into the bucket of a Redis Cluster that s hashes
// to, instead of each name's own, so that [Locker.AcquireAll] can hold several names
// as one lease. Everything else is as it was, and without a Cluster it does nothing.
//
// All who lock a name have to agree on its bucket, in every call: who says another
// one, or none, does not see their lease. Inspect, Break and `redlock` look where
// [New] says, so it is best given there. s is at most 512 bytes of UTF-8
// without control characters; what shares it shares one master per vote, and the
// load. Default "": the name's own.
func WithBucket(s string) LockOption {
	return lockOption(func(o *lockSettings) { o.bucket = s })
}

// DoAll is [Locker.Do] over several names, as [Locker.AcquireAll] locks them.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(ctx context.Context) error, opts ...LockOption) error {
	lease, err := l.AcquireAll(ctx, names, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// acquireAll tries until one round wins.
func (w *waiting) acquireAll(ctx context.Context) (*Lease, error) {
	if w.l.isClosed() {
		return nil, ErrClosed
	}
	if ctx.Err() != nil {
		return nil, w.gaveUp(ctx)
	}
	if w.o.wait != Forever && w.o.wait > 0 {
		w.until = time.Now().Add(w.o.wait)
	}
	for {
		lease, err := w.try(ctx, -1)
		if err == nil || w.final(err) || w.o.wait == 0 {
			return lease, err
		}
		pause := max(w.o.backoff(w.attempts), time.Millisecond)
		if !w.until.IsZero() {
			pause = min(pause, time.Until(w.until))
		}
		t := w.l.getTimer(max(pause, 0))
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-w.l.closed:
		}
		w.l.putTimer(t)
		if over, err := w.ended(ctx); over {
			return nil, err
		}
	}
}

// join makes an attempt one over several names.
func (h *hold) join(prefix string, all []string) {
	h.all = all
	if h.fence != nil {
		h.fence.block = 1 // what holds several names is never handed over
	}
	for _, name := range all[1:] {
		key := prefix + name
		n := seam.Names{Key: key, MarkKey: markKey(key), FenceKey: fencePrefix + key, WakeKey: wakePrefix + key}
		if h.label != "" {
			n.LabelKey = labelKey(key)
		}
		h.also = append(h.also, n)
	}
	h.name = strings.Join(all, ", ")
}

// names are what the lease holds.
func (h *hold) names() []string {
	if h.all != nil {
		return slices.Clone(h.all)
	}
	return []string{h.name}
}
