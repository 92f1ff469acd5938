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
// lie in one bucket, else the error is [ErrConfig]. The errors are those of Acquire.
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
		for _, v := range l.voters {
			if v.of(l.set.prefix+name) != v.of(l.set.prefix+w.all[0]) {
				return nil, &ConfigError{"names", fmt.Sprintf("%q and %q", w.all[0], name), "lie in different buckets of the Redis Cluster; lock them one by one"}
			}
		}
	}
	if w.name = w.all[0]; len(w.all) == 1 {
		w.all = nil
		return w.acquire(ctx)
	}
	return w.acquireAll(ctx)
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
