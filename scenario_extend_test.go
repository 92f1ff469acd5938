package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// diary keeps what the hooks tell, and when.
type diary struct {
	mu      sync.Mutex
	renewed []time.Time // renewals that succeeded
	failed  []redlock.RenewEvent
	lost    []redlock.LostEvent
}

// read is what stands in it. A test that fails must not keep the guard.
func (d *diary) read() (renewed []time.Time, failed []redlock.RenewEvent, lost []redlock.LostEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.renewed), slices.Clone(d.failed), slices.Clone(d.lost)
}

func (d *diary) hooks() redlock.Option {
	return redlock.WithHooks(redlock.Hooks{
		Renewed: func(e redlock.RenewEvent) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if e.Err != nil {
				d.failed = append(d.failed, e)
			} else {
				d.renewed = append(d.renewed, time.Now())
			}
		},
		Lost: func(e redlock.LostEvent) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.lost = append(d.lost, e)
		},
	})
}

// A holder that hangs gives the name up where a max hold says so, and only
// there.
func TestEXT05_MaxHoldEndsWhatAHungHolderHas(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		start := time.Now()
		lease := w.client().held("x", redlock.WithTTL(time.Second), redlock.WithMaxHold(5*time.Second))
		got := make(chan time.Duration, 1)
		b := w.client()
		go func() {
			next, err := b.Acquire(t.Context(), "x")
			if err == nil {
				got <- time.Since(start)
				err = next.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		<-lease.Context().Done()
		require.InDelta(t, 5, time.Since(start).Seconds(), 0.334)
		lost, ok := errors.AsType[*redlock.LostError](context.Cause(lease.Context()))
		require.True(t, ok)
		require.Equal(t, redlock.LostMaxHold, lost.Reason)
		require.ErrorContains(t, lost, "max hold")
		require.LessOrEqual(t, <-got, 6200*time.Millisecond)

		lease = w.client().held("y", redlock.WithTTL(time.Second))
		time.Sleep(time.Hour)
		require.NoError(t, lease.Err(), "without one there is no end")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The time of the wait is not taken from the lease.
func TestEXT06_ALongWaitTakesNothingFromTheLease(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var d diary
		first := w.client().held("x", redlock.WithTTL(time.Second))
		time.AfterFunc(1500*time.Millisecond, func() { _ = first.Release(context.Background()) })
		start := time.Now()
		lease := w.client(d.hooks()).held("x", redlock.WithTTL(time.Second))
		got := time.Now()
		require.GreaterOrEqual(t, got.Sub(start), 1500*time.Millisecond)
		require.GreaterOrEqual(t, time.Until(lease.Until()), 900*time.Millisecond)
		time.Sleep(500 * time.Millisecond)
		renewed, _, _ := d.read()
		require.Len(t, renewed, 1)
		require.InDelta(t, 1.0/3, renewed[0].Sub(got).Seconds(), 0.05, "the first renewal is due after a third of the TTL")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// An extend whose answers come after the validity has ended is no success.
func TestEXT07_AnExtendThatComesTooLateFails(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"waited for": 2 * time.Second, "not waited for": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				c := w.client(redlock.WithNodeTimeout(timeout))
				lease := c.held("x", redlock.WithTTL(500*time.Millisecond), redlock.WithoutRenewal())
				until := lease.Until()
				for i := range 3 {
					c.fault(i, fault{late: 600 * time.Millisecond})
				}
				err := lease.Extend(t.Context(), 500*time.Millisecond)
				require.Error(t, err)
				require.True(t, errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
				require.Equal(t, until, lease.Until(), "the old validity stands")
				time.Sleep(time.Until(until))
				require.ErrorIs(t, lease.Err(), redlock.ErrLost)
				for i := range 3 {
					c.fault(i, fault{})
				}
			})
		})
	}
}

// An extend that found no quorum leaves the lock, and the lease usable.
func TestEXT08_AFailedExtendHarmsNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		c := w.client()
		lease := c.held("x", redlock.WithTTL(5*time.Second), redlock.WithoutRenewal())
		synctest.Wait()
		w.first(2, (*memnode.Node).Hang)
		time.AfterFunc(300*time.Millisecond, func() { w.first(2, (*memnode.Node).Resume) })
		until := lease.Until()
		err := lease.Extend(t.Context(), 5*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, until, lease.Until())
		require.NoError(t, lease.Err())
		w.holds("lock:x", lease.Token(), 0, 1, 2)
		time.Sleep(200 * time.Millisecond)
		w.holds("lock:x", lease.Token(), 0, 1, 2)
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
		require.True(t, lease.Until().After(until))
		w.holds("lock:x", lease.Token(), 0, 1, 2)
		require.Zero(t, c.count(seam.Release), "it was never deleted in between")

		require.NoError(t, lease.Release(t.Context()))
		err = lease.Extend(t.Context(), time.Second)
		require.ErrorIs(t, err, redlock.ErrReleased)
		require.NotErrorIs(t, err, redlock.ErrLost)

		other := c.held("y", redlock.WithoutRenewal())
		synctest.Wait()
		w.put("lock:y", "B", time.Minute, 0, 1)
		err = other.Extend(t.Context(), time.Second)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrReleased)
		w.holds("lock:y", "B", 0, 1)
	})
}

// Hooks that panic or hang cost no other lease its renewal.
func TestEXT09_AHookThatFailsHarmsNoRenewal(t *testing.T) {
	for name, lost := range map[string]func(redlock.LostEvent){
		"panics": func(redlock.LostEvent) { panic("in a hook") },
		"blocks": func(redlock.LostEvent) { time.Sleep(10 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				calls := make(chan struct{}, 10)
				c := w.client(redlock.WithHooks(redlock.Hooks{Lost: func(e redlock.LostEvent) {
					calls <- struct{}{}
					lost(e)
				}}))
				var others []*redlock.Lease
				for i := range 20 {
					others = append(others, c.held(fmt.Sprint("other", i), redlock.WithTTL(time.Second)))
				}
				lease := c.held("x", redlock.WithTTL(time.Second))
				synctest.Wait()
				w.nodes[0].Delete("lock:x")
				w.nodes[1].Delete("lock:x")
				<-lease.Context().Done()
				<-calls
				for range 150 {
					time.Sleep(100 * time.Millisecond)
					for _, other := range others {
						require.NoError(t, other.Err())
						require.Greater(t, time.Until(other.Until()), 600*time.Millisecond, "renewed in time")
					}
				}
				for _, other := range others {
					require.NoError(t, other.Release(t.Context()))
				}
			})
		})
	}
}

// After a loss a release is over at once.
func TestEXT10_AReleaseAfterTheLossIsOverAtOnce(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed by a renewal": true, "noticed by the release": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				c := w.client()
				w.warm(c)
				lease := c.held("x", redlock.WithTTL(time.Second))
				time.Sleep(100 * time.Millisecond)
				w.nodes[0].Delete("lock:x")
				w.nodes[1].Delete("lock:x")
				trip := 2 * time.Millisecond
				if noticed {
					<-lease.Context().Done()
					trip = 0
				}
				var err error
				require.LessOrEqual(t, took(func() { err = lease.Release(t.Context()) }), trip)
				lost, ok := errors.AsType[*redlock.LostError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, redlock.LostTaken, lost.Reason)
				time.Sleep(time.Second)
				w.gone("lock:x")
			})
		})
	}
}

// There is no renewal interval to set wrongly; the one that is leaves room for
// two renewals that are missed, and what eats the validity up is refused.
func TestEXT11_TwoMissedRenewalsCostNothing(t *testing.T) {
	const ttl = 3 * time.Second
	for name, c := range map[string]struct{ fault, mend func(*memnode.Node) }{
		"refused": {
			func(n *memnode.Node) { n.Refuse(seam.Extend, errors.New("ERR not now")) },
			func(n *memnode.Node) { n.Refuse(seam.Extend, nil) },
		},
		"hung": {(*memnode.Node).Hang, (*memnode.Node).Resume},
		"late": {
			func(n *memnode.Node) { n.LoseReplies(true) },
			func(n *memnode.Node) { n.LoseReplies(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				var d diary
				lease := w.client(d.hooks()).held("x", redlock.WithTTL(ttl))
				synctest.Wait()
				w.first(3, c.fault)
				time.Sleep(ttl*2/3 + ttl/12) // the times of two renewals, and of what the second waits for
				w.first(3, c.mend)
				time.Sleep(10 * ttl)
				require.NoError(t, lease.Err())
				_, failed, lost := d.read()
				require.GreaterOrEqual(t, len(failed), 2)
				require.Empty(t, lost)
				require.NoError(t, lease.Release(t.Context()))
			})
		})
	}
	node := redlock.NodeOver(memnode.New("mem", nil).Dialer())
	for _, opts := range [][]redlock.Option{
		{redlock.WithTTL(10 * time.Millisecond), redlock.WithDrift(redlock.Drift{Fixed: 10 * time.Millisecond})},
		{redlock.WithTTL(0)},
		{redlock.WithTTL(-1)},
		{redlock.WithDrift(redlock.Drift{Rate: 1})},
		{redlock.WithNodeTimeout(-1)},
	} {
		_, err := redlock.New([]redlock.Node{node}, opts...)
		require.ErrorIs(t, err, redlock.ErrConfig)
	}
}
