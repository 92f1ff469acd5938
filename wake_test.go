package redlock

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
)

// wakeWorld runs f over three nodes and two Lockers, which act as two processes.
func wakeWorld(t *testing.T, m mutant, f func(t *testing.T, mems []*memnode.Node, a, b *Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(3)
		for _, n := range mems {
			n.Delay(100 * time.Microsecond)
		}
		a, b := overMem(t, mems, withMutant(m)), overMem(t, mems, withMutant(m))
		require.NoError(t, a.Init(t.Context()))
		for _, l := range []*Locker{a, b} {
			require.NoError(t, l.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		}
		f(t, mems, a, b)
	})
}

// later releases a lease after d, and says when it did.
func later(t *testing.T, lease *Lease, d time.Duration) {
	time.AfterFunc(d, func() { require.NoError(t, lease.Release(context.Background())) })
}

func TestWake_ReleaseWakesAWaiterInAnotherProcess(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, _ []*memnode.Node, a, b *Locker) {
		for range 20 {
			held, err := a.Acquire(t.Context(), "x")
			require.NoError(t, err)
			start := time.Now()
			later(t, held, 4321*time.Millisecond)
			got, err := b.Acquire(t.Context(), "x")
			require.NoError(t, err)
			require.Less(t, time.Since(start), 4321*time.Millisecond+5*time.Millisecond, "it was not woken")
			require.NoError(t, got.Release(t.Context()))
		}
	})
}

func TestHandOver_PassesInOrderWithoutANode(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) {
		held, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		ctx := held.Context()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range maxHandOvers {
			wg.Go(func() {
				lease, err := a.Acquire(t.Context(), "x")
				require.NoError(t, err)
				require.Error(t, ctx.Err())
				require.ErrorIs(t, context.Cause(ctx), ErrReleased)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				require.NoError(t, lease.Release(t.Context()))
				require.ErrorIs(t, lease.Release(t.Context()), ErrReleased)
			})
			synctest.Wait()
		}
		before := mems[0].Commands()
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		require.True(t, slices.IsSorted(order), "%v", order)
		require.LessOrEqual(t, mems[0].Commands()-before, 3, "one real release, at the end")
		synctest.Wait()
		_, _, stands := mems[0].Get("lock:x")
		require.False(t, stands)
	})
}

// A caller whose context ends in the moment in which it is handed the lease leaks
// nothing: the next gets it, or it is freed.
func TestHandOver_ToACallerThatGivesUp(t *testing.T) {
	for round := range 200 {
		wakeWorld(t, 0, func(t *testing.T, mems []*memnode.Node, a, b *Locker) {
			held, err := a.Acquire(t.Context(), "x")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			quits := waits(ctx, a, "x")
			synctest.Wait()
			var next <-chan error
			if round%2 == 0 {
				next = waits(t.Context(), a, "x")
				synctest.Wait()
			}
			go cancel()
			require.NoError(t, held.Release(t.Context()))
			if err := <-quits; err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			if next != nil {
				require.NoError(t, <-next)
			}
			time.Sleep(10 * time.Millisecond)
			for _, n := range mems {
				_, _, stands := n.Get("lock:x")
				require.False(t, stands, "the lease leaked")
			}
			lease, err := b.TryAcquire(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A lease passes on only to who asked for just that.
func TestHandOver_OnlyToWhoWantsTheSame(t *testing.T) {
	for name, opts := range map[string][]LockOption{
		"TTL":     {WithTTL(5 * time.Second)},
		"label":   {WithLabel("other")},
		"renewal": {WithoutRenewal()},
		"same":    {WithMaxHold(time.Hour), WithMinHold(time.Millisecond)},
	} {
		wakeWorld(t, 0, func(t *testing.T, _ []*memnode.Node, a, _ *Locker) {
			held, err := a.Acquire(t.Context(), "x")
			require.NoError(t, err)
			got := make(chan *Lease)
			go func() {
				lease, err := a.Acquire(context.Background(), "x", opts...)
				require.NoError(t, err)
				got <- lease
			}()
			synctest.Wait()
			until := held.Until()
			require.NoError(t, held.Release(t.Context()))
			lease := <-got
			require.Equal(t, name == "same", held.Token() == lease.Token(), name)
			require.Equal(t, until, held.Until(), "it stays what it was")
			time.Sleep(2 * time.Millisecond)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// While the process holds a name itself, its waiters send nothing.
func TestHandOver_NobodyContendsWithItsOwnProcess(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) {
		held, err := a.Acquire(t.Context(), "x", WithTTL(10*time.Second), WithoutRenewal())
		require.NoError(t, err)
		before := mems[0].Commands()
		_, err = a.Acquire(t.Context(), "x", WithWait(5*time.Second))
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, before, mems[0].Commands())
		require.NoError(t, held.Release(t.Context()))
	})
}

// What is left of a lease that is handed over late is filled up first.
func TestHandOver_ExtendsWhatIsShort(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, _ []*memnode.Node, a, _ *Locker) {
		held, err := a.Acquire(t.Context(), "x", WithoutRenewal())
		require.NoError(t, err)
		got := make(chan *Lease)
		go func() {
			lease, _ := a.Acquire(context.Background(), "x", WithoutRenewal())
			got <- lease
		}()
		time.Sleep(6 * time.Second)
		require.NoError(t, held.Release(t.Context()))
		lease := <-got
		require.Equal(t, held.Token(), lease.Token())
		require.Greater(t, time.Until(lease.Until()), 9*time.Second)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A waiter moves to the next node of the ranking when the one where it is
// registered goes, and is woken there.
func TestWake_MovesWhenTheDesignatedNodeDies(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, mems []*memnode.Node, a, b *Locker) {
		held, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		done := waits(t.Context(), b, "x")
		time.Sleep(100 * time.Millisecond)
		first := registeredAt(b, "x")
		require.GreaterOrEqual(t, first, 0)
		mems[first].Kill()
		time.Sleep(100 * time.Millisecond)
		second := registeredAt(b, "x")
		require.GreaterOrEqual(t, second, 0)
		require.NotEqual(t, first, second)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, <-done)
		require.Less(t, time.Since(start), 10*time.Millisecond)
	})
}

// The connection that wakes exists only while somebody waits, and a little longer.
func TestWake_EarsCloseWhenNobodyWaits(t *testing.T) {
	wakeWorld(t, 0, func(t *testing.T, _ []*memnode.Node, a, b *Locker) {
		open := func() (n int) {
			b.ears.mu.Lock()
			defer b.ears.mu.Unlock()
			for i := range b.ears.at {
				if b.ears.at[i].conn != nil {
					n++
				}
			}
			return n
		}
		require.Zero(t, open())
		held, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		done := waits(t.Context(), b, "x")
		time.Sleep(20 * time.Second)
		require.Equal(t, 1, open())
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, <-done)
		time.Sleep(3 * earLinger)
		require.Zero(t, open())
	})
}
