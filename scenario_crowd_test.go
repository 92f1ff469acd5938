package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
)

// rush is many clients that want one name at the same moment.
type rush struct {
	start    time.Time
	mu       sync.Mutex
	first    time.Duration // until somebody had it
	grants   int
	attempts int
	last     time.Duration // until the last of them had it
	wg       sync.WaitGroup
}

// begin lets n clients, each as far from each node as chance has it, ask for x,
// hold it for 10 ms and release it.
func (r *rush) begin(ctx context.Context, t *testing.T, w *world, n int) {
	t.Helper()
	var clients []*client
	for range n {
		c := w.client(redlock.WithHooks(redlock.Hooks{AcquireDone: func(_ context.Context, e redlock.AcquireEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.attempts += e.Attempts
		}}))
		require.NoError(t, c.Do(t.Context(), fmt.Sprint("warm", len(clients)), nothing))
		for i := range w.nodes {
			c.fault(i, fault{slow: time.Duration(1+rand.IntN(2000)) * time.Microsecond})
		}
		clients = append(clients, c)
	}
	r.attempts, r.start = 0, time.Now()
	for _, c := range clients {
		r.wg.Go(func() {
			err := c.Do(ctx, "x", func(context.Context) error {
				r.mu.Lock()
				r.last = time.Since(r.start)
				if r.grants++; r.grants == 1 {
					r.first = r.last
				}
				r.mu.Unlock()
				w.pass(10 * time.Millisecond)
				return nil
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
}

// Clients that ask at the same moment do not keep splitting the votes.
func TestPERF01_FiftyAtOnce(t *testing.T) {
	for range 10 { // to the first grant
		virtual(t, 5, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			var r rush
			r.begin(ctx, t, w, 50)
			r.wg.Wait()
			require.NotZero(t, r.grants, "nobody had it after 300 ms")
		})
	}
	virtual(t, 5, func(t *testing.T, w *world) {
		var r rush
		r.begin(t.Context(), t, w, 50)
		r.wg.Wait()
		t.Logf("the first after %v, all 50 after %v, %d attempts", r.first, r.last, r.attempts)
		require.Equal(t, 50, r.grants)
		require.LessOrEqual(t, r.last, 10*time.Second)
		require.LessOrEqual(t, r.attempts, 50*2*50, "twice the waiters for each grant")
	})
}

// Waiters cost the nodes next to nothing, and are there at once when the name is
// free.
func TestPERF02_WaitersDoNotPoll(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		w.first(3, func(n *memnode.Node) { n.Delay(time.Millisecond) })
		holder := w.client()
		lease := holder.held("x")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		got := make(chan time.Time, 500)
		for range 5 {
			c := w.client()
			for range 100 {
				wg.Go(func() {
					next, err := c.Acquire(ctx, "x")
					if err != nil {
						return
					}
					got <- time.Now()
					_ = next.Release(ctx)
				})
			}
		}
		w.pass(5 * time.Second)
		before := w.nodes[0].Commands()
		w.pass(30 * time.Second)
		rate := float64(w.nodes[0].Commands()-before) / 30
		t.Logf("%.1f commands a second and node", rate)
		// Each process asks about once a second for all of its waiters: SET, the
		// closing check, what stands there, its place in the list, and an undo. The
		// rest is the holder's.
		require.Less(t, rate, 5*5/0.9+5)
		released := time.Now()
		require.NoError(t, lease.Release(t.Context()))
		require.LessOrEqual(t, (<-got).Sub(released), 20*time.Millisecond)
		var gaps []time.Duration
		for last := released; len(gaps) < 499; {
			at := <-got
			gaps, last = append(gaps, at.Sub(last)), at
		}
		slices.Sort(gaps)
		require.LessOrEqual(t, gaps[len(gaps)/2], 20*time.Millisecond, "from one to the next")
		cancel()
		wg.Wait()
	})
}

// Nodes that are too slow are not dialled again and again, and serve again as
// soon as they are fast.
func TestPERF04_SlowNodesAreNotDialledAllTheTime(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithNodeTimeout(30 * time.Millisecond))
		require.NoError(t, a.held("warm").Release(t.Context()))
		w.first(3, func(n *memnode.Node) { n.Delay(40 * time.Millisecond) })
		before := a.dialled()
		var wg sync.WaitGroup
		for i := range 2000 { // 200 a second
			wg.Go(func() { _, _ = a.TryAcquire(t.Context(), fmt.Sprint("name", i)) })
			w.pass(5 * time.Millisecond)
		}
		dials := float64(a.dialled()-before) / 3 / 10
		t.Logf("%.1f dials a second and node", dials)
		require.LessOrEqual(t, dials, 34.0, "one at a time, each for a node timeout")
		w.first(3, func(n *memnode.Node) { n.Delay(0) })
		require.LessOrEqual(t, took(func() { a.held("x") }), 600*time.Millisecond, "one probe, at most 500 ms away")
		wg.Wait()
		w.pass(time.Second)
		for i := range 2000 {
			w.gone(fmt.Sprint("lock:name", i))
		}
	})
}

// All nodes are asked at once: their latencies do not add up.
func TestPERF05_LatenciesDoNotAddUp(t *testing.T) {
	virtual(t, 5, func(t *testing.T, w *world) {
		a := w.client()
		w.first(5, func(n *memnode.Node) { n.Delay(20 * time.Millisecond) })
		require.NoError(t, a.held("warm").Release(t.Context()))
		for i := range 20 {
			var lease *redlock.Lease
			require.LessOrEqual(t, took(func() { lease = a.held(fmt.Sprint("x", i)) }), 35*time.Millisecond)
			require.LessOrEqual(t, took(func() { require.NoError(t, lease.Release(t.Context())) }), 35*time.Millisecond)
		}
		var all *redlock.Lease
		require.LessOrEqual(t, took(func() {
			var err error
			all, err = a.AcquireAll(t.Context(), []string{"a", "b", "c", "d"})
			require.NoError(t, err)
		}), 35*time.Millisecond, "nor do several names")
		require.NoError(t, all.Release(t.Context()))
		w.first(5, func(n *memnode.Node) { n.Delay(0) })
	})
}

// Of a name that was locked and released the client keeps nothing.
func TestPERF06_NamesLeaveNothingBehind(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		use := func(from, to int) {
			for i := from; i < to; i++ {
				name := fmt.Sprint("name", i)
				lease := a.held(name)
				if i%10 == 0 { // somebody waits for it, too
					done := make(chan error)
					go func() { done <- b.Do(t.Context(), name, nothing) }()
					w.pass(time.Millisecond)
					require.NoError(t, lease.Release(t.Context()))
					require.NoError(t, <-done)
					continue
				}
				require.NoError(t, lease.Release(t.Context()))
			}
			w.pass(30 * time.Second) // wake-up lists, and what is owed
		}
		use(0, 1000) // what is allocated once is
		before := heapInUse()
		use(1000, 11_000)
		after := heapInUse()
		t.Logf("%d KiB before, %d KiB after 10 000 names", before>>10, after>>10)
		require.Less(t, after, before+512<<10, "52 bytes a name would be more")
	})
}
