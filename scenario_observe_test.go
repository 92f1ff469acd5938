package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// notes is what the hooks told, in order.
type notes struct {
	mu       sync.Mutex
	acquired []redlock.AcquireEvent
	renewed  []redlock.RenewEvent
	lost     []redlock.LostEvent
	released []redlock.ReleaseEvent
	down     []redlock.NodeEvent
	order    []string
}

func (n *notes) hooks() redlock.Option {
	note := func(what string, f func()) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.order = append(n.order, what)
		f()
	}
	return redlock.WithHooks(redlock.Hooks{
		AcquireDone: func(_ context.Context, e redlock.AcquireEvent) {
			note("acquired", func() { n.acquired = append(n.acquired, e) })
		},
		Renewed: func(e redlock.RenewEvent) {
			what := "renewed"
			if e.Err != nil {
				what = "renewal failed"
			}
			note(what, func() { n.renewed = append(n.renewed, e) })
		},
		Lost: func(e redlock.LostEvent) { note("lost", func() { n.lost = append(n.lost, e) }) },
		Released: func(_ context.Context, e redlock.ReleaseEvent) {
			note("released", func() { n.released = append(n.released, e) })
		},
		NodeDown: func(e redlock.NodeEvent) { note("down", func() { n.down = append(n.down, e) }) },
	})
}

// Contention can be seen: attempts, time waited, time held, validity left, and
// how each call ended.
func TestOBS01_ContentionIsVisible(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var n notes
		c, other := w.client(n.hooks()), w.client()
		theirs := other.held("hot")
		time.AfterFunc(5*time.Second, func() { _ = theirs.Release(context.Background()) })
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				require.NoError(t, c.Do(t.Context(), "hot", func(context.Context) error {
					time.Sleep(100 * time.Millisecond)
					return nil
				}))
			})
		}
		wg.Wait()
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Len(t, n.acquired, 64)
		require.Len(t, n.released, 64)
		attempts, waited := 0, time.Duration(0)
		for _, e := range n.acquired {
			require.NoError(t, e.Err)
			attempts += e.Attempts
			waited = max(waited, e.Waited)
		}
		require.Greater(t, attempts, 64, "the first in line had to try again")
		require.Less(t, attempts, 64*10, "and the others lined up")
		require.GreaterOrEqual(t, waited, 5*time.Second+63*100*time.Millisecond)
		for _, e := range n.released {
			require.NoError(t, e.Err)
			require.GreaterOrEqual(t, e.Held, 100*time.Millisecond)
			require.Positive(t, e.Left)
		}
	})
}

// A renewal that fails is told each time with the nodes' causes, and the loss
// once, after them. A slow observer delays no renewal.
func TestOBS02_FailedRenewalsThenLostOnce(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var n notes
		c := w.client(n.hooks())
		lease := c.held("x", redlock.WithTTL(3*time.Second))
		time.Sleep(5 * time.Second)
		w.nodes[0].Hang()
		w.nodes[1].Hang()
		<-lease.Context().Done()
		time.Sleep(10 * time.Second)
		w.nodes[0].Resume()
		w.nodes[1].Resume()
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		failed := 0
		for _, e := range n.renewed {
			if e.Err == nil {
				continue
			}
			failed++
			require.ErrorIs(t, e.Err, redlock.ErrNoQuorum)
			require.ErrorContains(t, e.Err, "mem0")
		}
		require.NotZero(t, failed)
		require.Len(t, n.lost, 1)
		require.Equal(t, redlock.LostNoQuorum, n.lost[0].Err.Reason)
		seenLost := false
		for _, what := range n.order {
			seenLost = seenLost || what == "lost"
			require.False(t, seenLost && what == "renewal failed", "%v", n.order)
		}
	})
	virtual(t, 3, func(t *testing.T, w *world) {
		blocked := make(chan struct{})
		c := w.client(redlock.WithHooks(redlock.Hooks{Renewed: func(redlock.RenewEvent) { <-blocked }}))
		lease := c.held("x", redlock.WithTTL(time.Second))
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err(), "the observer sleeps, the renewals do not")
		close(blocked)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A release after the end of the lease is told as what it is.
func TestOBS03_AReleaseAfterTheEndIsTold(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var n notes
		c := w.client(n.hooks())
		lease := c.held("x", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
		time.Sleep(500 * time.Millisecond)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Len(t, n.released, 1)
		require.ErrorIs(t, n.released[0].Err, redlock.ErrLost)
		require.Negative(t, n.released[0].Left)
		require.Len(t, n.lost, 1)
	})
}

// Ten minutes without a majority, and many waiters: at most one warning per
// node and ten seconds. Nothing is said when all is well.
func TestOBS04_TheLogIsNotFlooded(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), nil))
	virtual(t, 3, func(t *testing.T, w *world) {
		c := w.client(redlock.WithLogger(logger))
		for range 100 {
			require.NoError(t, c.Do(t.Context(), "x", nothing))
		}
		lease := c.held("kept")
		time.Sleep(time.Minute)
		require.NoError(t, lease.Release(t.Context()))
		mu.Lock()
		require.Empty(t, out.String(), "silent when healthy")
		mu.Unlock()

		w.nodes[0].Kill()
		w.nodes[1].Hang()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := c.Acquire(ctx, fmt.Sprint("x", i))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			})
		}
		wg.Wait()
		w.nodes[1].Resume()
		mu.Lock()
		defer mu.Unlock()
		lines := strings.Count(out.String(), "\n")
		require.NotZero(t, lines)
		require.LessOrEqual(t, lines, 2*61, "two nodes, sixty times ten seconds")
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
