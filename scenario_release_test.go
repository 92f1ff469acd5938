package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// Release works under a context that has ended, and ends by itself.
func TestREL02_ReleaseUnderACancelledContext(t *testing.T) {
	const long = 5 * time.Minute
	virtual(t, 3, func(t *testing.T, w *world) {
		c := w.client(redlock.WithMaxTTL(long), redlock.WithTTL(long))
		w.first(3, func(n *memnode.Node) { n.Delay(5 * time.Millisecond) })
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := c.Acquire(ctx, "x")
		require.NoError(t, err)
		cancel()
		require.NoError(t, lease.Release(ctx))
		time.Sleep(200 * time.Millisecond)
		w.gone("lock:x")

		ctx, cancel = context.WithCancel(t.Context())
		lease, err = c.Acquire(ctx, "x")
		require.NoError(t, err)
		cancel()
		w.first(3, (*memnode.Node).Hang)
		require.LessOrEqual(t, took(func() { err = lease.Release(ctx) }), 2*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.Canceled)
		w.first(3, (*memnode.Node).Resume)
		time.Sleep(time.Second)
		w.gone("lock:x")
	}, redlock.WithMaxTTL(long))
}

// A release that comes too late says so once, without a second try.
func TestREL03_ReleaseAfterTheEndSaysLost(t *testing.T) {
	for name, taken := range map[string]bool{"free": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				a, b := w.client(), w.client()
				w.warm(b)
				lease := a.held("x", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
				time.Sleep(500 * time.Millisecond)
				var next *redlock.Lease
				if taken {
					next = b.held("x")
					time.Sleep(10 * time.Millisecond)
				}
				before := a.count(seam.Release)
				var err error
				require.LessOrEqual(t, took(func() { err = lease.Release(t.Context()) }), 50*time.Millisecond)
				require.ErrorIs(t, err, redlock.ErrLost)
				lost, ok := errors.AsType[*redlock.LostError](err)
				require.True(t, ok)
				require.Equal(t, redlock.LostExpired, lost.Reason)
				require.NotErrorIs(t, err, redlock.ErrReleased)
				time.Sleep(time.Minute)
				require.LessOrEqual(t, a.count(seam.Release)-before, 3, "one trip at most, and no other try")
				if taken {
					w.holds("lock:x", next.Token(), 0, 1, 2)
					require.NoError(t, next.Release(t.Context()))
				}
				w.gone("lock:x")
			})
		})
	}
}

// One node that is down does not make a release fail, and a hook names it.
func TestREL04_OneDeadNodeDoesNotFailTheRelease(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var down []redlock.NodeEvent
		var released []redlock.ReleaseEvent
		c := w.client(redlock.WithHooks(redlock.Hooks{
			NodeDown: func(e redlock.NodeEvent) {
				mu.Lock()
				defer mu.Unlock()
				down = append(down, e)
			},
			Released: func(_ context.Context, e redlock.ReleaseEvent) { released = append(released, e) },
		}))
		lease := c.held("x")
		synctest.Wait()
		w.nodes[2].Kill()
		require.LessOrEqual(t, took(func() { require.NoError(t, lease.Release(t.Context())) }), 250*time.Millisecond)
		synctest.Wait()
		mu.Lock()
		told := slices.Clone(down)
		mu.Unlock()
		require.NotEmpty(t, told)
		require.Equal(t, "mem2", told[0].Node)
		require.Error(t, told[0].Err)
		require.Len(t, released, 1)
		require.NoError(t, released[0].Err)
		w.holds("lock:x", "", 0, 1)
	})
}

// Where the servers refuse the release, the error says so in their words, and
// nothing keeps the lock alive.
func TestREL05_AServerThatRefusesTheRelease(t *testing.T) {
	for _, c := range []struct {
		name, word string
		args       []string
		fault      func(t *testing.T, s *realServer)
	}{
		{"NOREPL", "NOREPLICAS", nil, func(t *testing.T, s *realServer) {
			t.Helper()
			require.NoError(t, s.admin.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		}},
		{"MISCONF", "MISCONF", []string{"--save", "3600 1"}, failToSave},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers := realServers(t, c.args...)
			l := overReal(t, servers, redlock.WithTTL(time.Second))
			require.NoError(t, l.Init(t.Context()))
			lease, err := l.Acquire(t.Context(), "x")
			require.NoError(t, err)
			for _, s := range servers[:2] {
				require.Eventually(t, func() bool { return s.admin.Exists(t.Context(), "lock:x").Val() == 1 }, time.Second, time.Millisecond)
				c.fault(t, s)
			}
			at := time.Now()
			err = lease.Release(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			for _, s := range servers[:2] {
				require.ErrorContains(t, err, s.Addr())
			}
			require.ErrorContains(t, err, c.word)
			require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
			require.Error(t, lease.Context().Err())
			for _, s := range servers[:2] {
				left := s.admin.PTTL(t.Context(), "lock:x").Val()
				require.LessOrEqual(t, left, time.Second-time.Since(at)+50*time.Millisecond, "not extended")
				require.Eventually(t, func() bool { return s.admin.Exists(t.Context(), "lock:x").Val() == 0 }, 1500*time.Millisecond, 5*time.Millisecond, "it dies with its TTL")
			}
		})
	}
}

// failToSave makes a server refuse writes because it cannot save.
func failToSave(t *testing.T, s *realServer) {
	t.Helper()
	dir := s.admin.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NotEmpty(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, s.admin.BgSave(t.Context()).Err())
	require.Eventually(t, func() bool {
		return redis.HasErrorPrefix(s.admin.Set(t.Context(), "probe", "1", time.Second).Err(), "MISCONF")
	}, 5*time.Second, 5*time.Millisecond)
}

// Of many who release one lease at once one does it.
func TestREL06_OneOfManyReleasesWorks(t *testing.T) {
	w := newWorld(t, 3) // real time: the goroutines are to meet as they will
	c := w.client()
	for range 50 {
		lease := c.held("x")
		until := lease.Until()
		var done, again atomic.Int32
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				<-start
				switch err := lease.Release(t.Context()); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, redlock.ErrReleased) && !errors.Is(err, redlock.ErrLost):
					again.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		require.EqualValues(t, 1, done.Load())
		require.EqualValues(t, 9, again.Load())
		require.Equal(t, until, lease.Until(), "it stays what it was…")
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased, "…and Err tells")
	}
	require.NoError(t, c.Close()) // what is behind the callers' backs is over then
	require.LessOrEqual(t, c.count(seam.Release), 50*3, "one release per lease and node")
}

// A lease is its own: what was locked later through the same Locker is not
// freed by it.
func TestREL07_AnOldHolderDoesNotFreeTheNext(t *testing.T) {
	virtual(t, 1, func(t *testing.T, w *world) {
		c := w.client()
		old := c.held("x", redlock.WithTTL(200*time.Millisecond), redlock.WithoutRenewal())
		time.Sleep(400 * time.Millisecond)
		next := c.held("x")
		require.NotEqual(t, old.Token(), next.Token())
		require.ErrorIs(t, old.Release(t.Context()), redlock.ErrLost)
		time.Sleep(time.Second)
		w.holds("lock:x", next.Token(), 0)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
		require.ErrorIs(t, old.Release(t.Context()), redlock.ErrLost)
	})
}

// A release that meets a renewal in flight is the last word.
func TestREL08_ARenewalInFlightChangesNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		var lost, failed, renewed atomic.Int32
		c := w.client(redlock.WithHooks(redlock.Hooks{
			Lost: func(redlock.LostEvent) { lost.Add(1) },
			Renewed: func(e redlock.RenewEvent) {
				if renewed.Add(1); e.Err != nil {
					failed.Add(1)
				}
			},
		}))
		w.first(3, func(n *memnode.Node) { n.Delay(80 * time.Millisecond) })
		extends := 0
		for i := range 500 {
			lease := c.held("x", redlock.WithTTL(300*time.Millisecond)) // renewed every 100 ms
			before := c.count(seam.Extend)
			time.Sleep(time.Duration(i) * time.Millisecond / 4) // 0 … 125 ms after an answer of 80
			require.NoError(t, lease.Release(t.Context()))
			extends += c.count(seam.Extend) - before
			for range 4 {
				w.gone("lock:x")
				time.Sleep(100 * time.Millisecond)
			}
		}
		require.Greater(t, extends, 300, "renewals were in flight")
		require.Zero(t, lost.Load())
		require.Zero(t, failed.Load())
	})
}

// A server whose user may not run scripts gets no key that could not be
// released.
func TestREL09_NoKeyWhereNoReleaseIsPossible(t *testing.T) {
	for _, minus := range []string{"-eval", "-evalsha", "-@scripting"} {
		t.Run(minus, func(t *testing.T) {
			servers := realServers(t)
			require.NoError(t, overReal(t, servers).Init(t.Context()))
			var nodes []redlock.Node
			for _, s := range servers {
				require.NoError(t, s.admin.Do(t.Context(), "acl", "setuser", "app", "reset", "on", ">hunter2", "~*", "&*", "+@all", minus).Err())
				require.NoError(t, s.admin.ConfigResetStat(t.Context()).Err())
				nodes = append(nodes, redlock.Master(&redis.Options{Addr: s.Addr(), Username: "app", Password: "hunter2"}))
			}
			l, err := redlock.New(nodes, redlock.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			_, err = l.Acquire(t.Context(), "x") // and does not wait: that mends nothing
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, "EVAL")
			require.ErrorContains(t, err, "no lock could be released")
			require.NotContains(t, err.Error(), "hunter2")
			for _, s := range servers {
				require.Zero(t, s.admin.Exists(t.Context(), "lock:x").Val())
				require.NotContains(t, s.admin.Info(t.Context(), "commandstats").Val(), "cmdstat_set:", "no SET was sent")
			}
		})
	}
}
