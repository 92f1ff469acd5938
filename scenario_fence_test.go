package redlock_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
)

// Fences rise from grant to grant while one node after the other restarts empty,
// hangs or is out of reach.
func TestFEN01_FencesRiseAcrossFailures(t *testing.T) {
	const clients, grants = 5, 500
	opts := []redlock.Option{redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second), redlock.WithFencing()}
	virtual(t, 5, func(t *testing.T, w *world) {
		rnd := rand.New(rand.NewPCG(1, 1))
		w.first(5, func(n *memnode.Node) { n.Delay(time.Millisecond) })
		var mu sync.Mutex
		var fences []redlock.Fence // in the order of the grants: who appends holds the name
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range clients {
			c := w.client(opts...)
			wg.Go(func() {
				for {
					lease, err := c.Acquire(t.Context(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					fences = append(fences, lease.Fence())
					enough := len(fences) >= grants
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
					_ = lease.Release(t.Context())
					if enough {
						return
					}
				}
			})
		}
		go func() { wg.Wait(); close(done) }()
		trouble(w, rnd, done)
		require.GreaterOrEqual(t, len(fences), grants)
		for i, f := range fences[1:] {
			require.Greater(t, f, fences[i], "grant %d", i+1)
		}
		last := fences[len(fences)-1]
		w.first(5, (*memnode.Node).Forget) // and now all of them at once
		lease := w.client(opts...).held("x")
		require.Greater(t, lease.Fence(), last)
		f := lease.Fence()
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		w.pass(5 * time.Second)
		require.Equal(t, f, lease.Fence(), "neither extending nor renewal changes it")
		require.NoError(t, lease.Release(t.Context()))
	}, opts...)
}

// trouble lets one node at a time fail until done. A node that forgot is left
// alone for its quarantine, 3.01 s with a max TTL of 1 s.
func trouble(w *world, rnd *rand.Rand, done <-chan struct{}) {
	for {
		n := w.nodes[rnd.IntN(len(w.nodes))]
		pause := 200 * time.Millisecond
		switch rnd.IntN(3) {
		case 0:
			n.Forget()
			pause = 3100 * time.Millisecond
		case 1:
			n.Hang()
		case 2:
			n.Kill()
		}
		select {
		case <-done:
			n.Resume()
			n.Start()
			return
		case <-time.After(pause):
		}
		n.Resume()
		n.Start()
		time.Sleep(200 * time.Millisecond)
	}
}

// What names that were used once leave dies, and its death does not make the next
// number smaller.
func TestFEN02_CountersExpire(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithFencing())
		w.warm(a)
		last := a.held("x")
		require.NoError(t, last.Release(t.Context()))
		for i := range 1000 {
			require.NoError(t, a.held("once"+time.Duration(i).String()).Release(t.Context()))
		}
		synctest.Wait()
		for _, n := range w.nodes {
			require.GreaterOrEqual(t, len(n.Keys()), 1001, "a counter per name")
			for _, key := range n.Keys() {
				if _, ttl, _ := n.Get(key); !strings.HasPrefix(key, "redlock:seal:") {
					require.Positive(t, ttl, "%s has no TTL", key)
					require.LessOrEqual(t, ttl, time.Hour, key)
				}
			}
		}
		w.pass(time.Hour + time.Minute)
		for _, n := range w.nodes {
			require.Len(t, n.Keys(), 1, "%v: the seal is all that stays", n.Keys())
		}
		next := a.held("x")
		require.Greater(t, next.Fence(), last.Fence())
		require.NoError(t, next.Release(t.Context()))
	})
}
