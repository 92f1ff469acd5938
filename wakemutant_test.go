package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
)

// waits lets l wait for a name, until ctx ends.
func waits(ctx context.Context, l *Locker, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, name)
		if err == nil {
			err = lease.Release(context.Background())
		}
		done <- err
	}()
	return done
}

// registeredAt is the node where l is registered and rests, -1 for none.
func registeredAt(l *Locker, name string) (node int) {
	node = -1
	l.lines.with(name, func(li *line) {
		if li.vigil.stage == stageRest {
			node = li.vigil.node
		}
	})
	return node
}

// storyGatedPolls: somebody's key stands on the designated node alone, so the name
// is free.
func storyGatedPolls(t *testing.T, m mutant) (sin string) {
	wakeWorld(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) {
		d := a.designated("x")
		mems[d].Put("lock:x", "stranger", 0)
		lease, err := a.TryAcquire(t.Context(), "x")
		if err != nil {
			sin = "a stale key on the designated node made a free name look held"
			return
		}
		require.NoError(t, lease.Release(t.Context()))
		lease, err = b.Acquire(t.Context(), "x", WithWait(10*time.Second))
		require.NoError(t, err)
		// The poll asks all, too: the release wakes nobody, for it is no release.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := waits(ctx, a, "x")
		time.Sleep(500 * time.Millisecond)
		for i, n := range mems {
			if i != d {
				n.Delete("lock:x")
			}
		}
		b.decline(lease.b)
		if <-done != nil {
			sin = "a stale key on the designated node made a free name look held"
		}
	})
	return sin
}

// storyOldHandle: who has handed its lease over releases once more.
func storyOldHandle(t *testing.T, m mutant) (sin string) {
	wakeWorld(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) {
		old, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		got := make(chan *Lease)
		go func() {
			lease, _ := a.Acquire(context.Background(), "x")
			got <- lease
		}()
		synctest.Wait()
		require.NoError(t, old.Release(t.Context()))
		lease := <-got
		require.Equal(t, old.Token(), lease.Token(), "it was handed over")
		err = old.Release(t.Context())
		synctest.Wait()
		for _, n := range mems {
			if token, _, _ := n.Get("lock:x"); token != lease.Token() {
				sin = "a late Release of the old handle freed the lock"
				return
			}
		}
		require.ErrorIs(t, err, ErrReleased)
		require.ErrorIs(t, old.Extend(t.Context(), time.Second), ErrReleased)
		require.ErrorIs(t, old.Err(), ErrReleased)
		require.NoError(t, lease.Release(t.Context()))
	})
	return sin
}

// storyUndoWakes: a failed attempt, which a minority granted, is undone while
// somebody waits there.
func storyUndoWakes(t *testing.T, m mutant) (sin string) {
	wakeWorld(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) {
		held, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := waits(ctx, b, "x")
		time.Sleep(100 * time.Millisecond)
		before := registeredAt(b, "x")
		require.GreaterOrEqual(t, before, 0)
		mems[before].Delete("lock:x")
		c := overMem(t, mems, withMutant(m))
		_, err = c.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(700 * time.Microsecond)
		if registeredAt(b, "x") != before {
			sin = "the undoing of an attempt woke a waiter"
		}
		cancel()
		<-done
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, c.Close())
	})
	return sin
}

// storyNoPassOn: a wake-up reaches a process whose caller has just given up, while
// another process waits.
func storyNoPassOn(t *testing.T, m mutant) (sin string) {
	wakeWorld(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) {
		held, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		done := waits(t.Context(), b, "x")
		time.Sleep(100 * time.Millisecond)
		node := registeredAt(b, "x")
		require.GreaterOrEqual(t, node, 0)
		for _, n := range mems {
			n.Delete("lock:x") // as the release did that woke the one who gave up
		}
		start := time.Now()
		c := overMem(t, mems, withMutant(m))
		require.NoError(t, c.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		c.lines.heard("x", node, false)
		require.NoError(t, <-done)
		if took := time.Since(start); took > 20*time.Millisecond {
			sin = fmt.Sprintf("the next waiter slept %v beside a free name", took)
		}
		_ = held.Release(t.Context())
		require.NoError(t, c.Close())
	})
	return sin
}

// storyStaleGift: the process stood still between the hand-over and its other end.
func storyStaleGift(t *testing.T, m mutant) (sin string) {
	h := &hold{drift: Drift{Fixed: time.Millisecond}, ttl: time.Second, nodes: make([]nodeHold, 3), round: newRound(3, nil), mutant: m}
	for i := range h.nodes {
		h.voted(i, &answer{vote: voteGranted})
	}
	require.True(t, h.won(moment{}))
	require.True(t, h.passes(moment{instant: at(100*time.Millisecond, 0, 0)}))
	h.passed(moment{instant: at(100*time.Millisecond, 0, 0)}, 0)
	if alive, short := h.received(moment{instant: at(1100*time.Millisecond, 0, 0)}); alive && !short {
		return "a lease that had ended was handed over as new"
	}
	alive, short := h.received(moment{instant: at(500*time.Millisecond, 0, 0)})
	require.True(t, alive)
	require.True(t, short, "it is extended first")
	return ""
}

// storyNoStandBack: eight callers of one process keep a name busy, and one of
// another wants it.
func storyNoStandBack(t *testing.T, m mutant) (sin string) {
	wakeWorld(t, m, func(t *testing.T, _ []*memnode.Node, a, b *Locker) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if lease, err := a.Acquire(ctx, "x"); err == nil {
						time.Sleep(time.Millisecond)
						_ = lease.Release(ctx)
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		var waited []time.Duration
		for ctx.Err() == nil {
			start := time.Now()
			lease, err := b.Acquire(ctx, "x")
			if waited = append(waited, time.Since(start)); err == nil {
				require.NoError(t, lease.Release(ctx))
			}
		}
		wg.Wait()
		slices.Sort(waited)
		if longest := waited[len(waited)-1]; longest > 250*time.Millisecond {
			sin = fmt.Sprintf("a caller in another process starved for %v", longest)
		}
	})
	return sin
}
