package redlock

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// Two Lockers in one process act as two processes: nothing but the nodes connects
// them.
func realPair(t *testing.T, n int) (servers []*redisproc.Server, a, b *Locker) {
	t.Helper()
	servers = startServers(t, n, redisproc.Options{})
	quiet := WithLogger(slog.New(slog.DiscardHandler))
	a, b = overServers(t, servers, quiet), overServers(t, servers, quiet)
	require.NoError(t, a.Init(t.Context()))
	return servers, a, b
}

// asleep waits until a Locker is registered for x, and says where.
func asleep(t *testing.T, l *Locker) (node int) {
	t.Helper()
	require.Eventually(t, func() bool {
		node = -1
		l.lines.with("x", func(li *line) {
			if li.vigil.stage == stageRest {
				node = li.vigil.node
			}
		})
		return node >= 0
	}, 10*time.Second, 100*time.Microsecond)
	return node
}

// pass lets b wait for what a holds, releases it, and says how long that took.
func pass(t *testing.T, a, b *Locker, trouble func(node int)) time.Duration {
	t.Helper()
	held, err := a.Acquire(t.Context(), "x")
	require.NoError(t, err)
	var got time.Time
	done := make(chan *Lease)
	go func() {
		lease, err := b.Acquire(context.Background(), "x")
		got = time.Now()
		if err != nil {
			t.Error(err)
		}
		done <- lease
	}()
	node := asleep(t, b)
	trouble(node)
	released := time.Now()
	require.NoError(t, held.Release(t.Context()))
	lease := <-done
	require.NotNil(t, lease)
	took := got.Sub(released)
	require.NoError(t, lease.Release(t.Context()))
	return took
}

func TestRealWake_TheOtherProcessHasItAtOnce(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		_, a, b := realPair(t, n)
		var all []time.Duration
		for range 100 {
			all = append(all, pass(t, a, b, func(int) {}))
			a, b = b, a
		}
		slices.Sort(all)
		t.Logf("N=%d: p50 %v p90 %v p99 %v", n, all[50], all[90], all[99])
		require.Less(t, all[50], 100*time.Millisecond, "that is no wake-up, but the poll")
	}
}

func TestRealWake_TheDesignatedNodeFails(t *testing.T) {
	for name, c := range map[string]struct {
		trouble, mend func(*redisproc.Server)
	}{
		"killed":  {(*redisproc.Server).Kill, func(s *redisproc.Server) { _ = s.Restart(context.Background(), false) }},
		"stopped": {(*redisproc.Server).Stop, (*redisproc.Server).Cont},
	} {
		t.Run(name, func(t *testing.T) {
			servers, a, b := realPair(t, 3)
			pass(t, a, b, func(int) {})
			var broken int
			took := pass(t, a, b, func(node int) {
				broken = node
				c.trouble(servers[node])
			})
			t.Logf("%v", took)
			require.Less(t, took, 1500*time.Millisecond)
			// The next waiter is registered at the next node.
			took = pass(t, a, b, func(node int) { require.NotEqual(t, broken, node) })
			require.Less(t, took, 500*time.Millisecond)
			c.mend(servers[broken])
		})
	}
}

func TestRealHandOver_ManyWaitersPassInOrder(t *testing.T) {
	const waiters = 300
	_, a, _ := realPair(t, 3)
	held, err := a.Acquire(t.Context(), "x")
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	var mu sync.Mutex
	var order []int
	var times []time.Time
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			lease, err := a.Acquire(t.Context(), "x")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order, times = append(order, i), append(times, time.Now())
			mu.Unlock()
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		require.Eventually(t, func() bool {
			in := 0
			a.lines.with("x", func(li *line) { in = len(li.queue) })
			return in == i+1
		}, 10*time.Second, 50*time.Microsecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine()-before, waiters+1, "the waiters' own, and none beside")
	require.NoError(t, held.Release(t.Context()))
	wg.Wait()
	require.True(t, slices.IsSorted(order), "%v", order)
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	slices.Sort(gaps)
	t.Logf("gap p50 %v p90 %v p99 %v", gaps[len(gaps)/2], gaps[len(gaps)*9/10], gaps[len(gaps)*99/100])
}

// Four processes of eight callers, who hold for a moment and think for a moment:
// none of them starves.
func TestRealWake_ProcessesTakeTurns(t *testing.T) {
	const processes, callers = 4, 8
	servers, a, b := realPair(t, 3)
	quiet := WithLogger(slog.New(slog.DiscardHandler))
	all := []*Locker{a, b, overServers(t, servers, quiet), overServers(t, servers, quiet)}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var counts [processes]atomic.Int64
	var inside atomic.Int64
	var wg sync.WaitGroup
	for i, l := range all {
		for range callers {
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := l.Acquire(ctx, "x")
					if err != nil {
						continue
					}
					if inside.Add(1) != 1 {
						t.Error("two at once")
					}
					counts[i].Add(1)
					inside.Add(-1)
					if err := lease.Release(ctx); err != nil {
						t.Error(err)
					}
					pause := time.NewTimer(5 * time.Millisecond)
					<-pause.C
				}
			})
		}
	}
	wg.Wait()
	least, most := counts[0].Load(), counts[0].Load()
	for i := range counts {
		least, most = min(least, counts[i].Load()), max(most, counts[i].Load())
	}
	t.Logf("least %d, most %d: %.2f", least, most, float64(least)/float64(most))
	require.Greater(t, float64(least)/float64(most), 0.5)
}
