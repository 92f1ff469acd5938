package redlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// whole is the life of a lease, by a new client.
func whole(t *testing.T, l *redlock.Locker) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "x", redlock.WithWait(5*time.Second))
	require.NoError(t, err)
	require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
}

// A node in trouble of any kind costs its vote and nothing else, and Check says
// what the trouble is.
func TestNODE02_AMinorityInTroubleIsNoEvent(t *testing.T) {
	set := func(name, value string) func(t *testing.T, s *realServer) string {
		return func(t *testing.T, s *realServer) string {
			t.Helper()
			require.NoError(t, s.admin.ConfigSet(t.Context(), name, value).Err())
			return s.Addr()
		}
	}
	for name, c := range map[string]struct {
		fault func(t *testing.T, s *realServer) (addr string)
		word  string // of the finding
	}{
		"refused":        {func(_ *testing.T, s *realServer) string { s.Kill(); return s.Addr() }, "connection refused"},
		"no such host":   {func(*testing.T, *realServer) string { return "no-such-host.invalid:6379" }, "no-such-host"},
		"hung":           {func(_ *testing.T, s *realServer) string { s.Stop(); return s.Addr() }, ""},
		"OOM":            {set("maxmemory", "1"), ""},
		"MISCONF":        {func(t *testing.T, s *realServer) string { t.Helper(); failToSave(t, s); return s.Addr() }, ""},
		"NOREPLICAS":     {set("min-replicas-to-write", "1"), ""},
		"wrong password": {set("requirepass", "another"), "NOAUTH"},
		"evicting policy": {func(t *testing.T, s *realServer) string {
			t.Helper()
			set("maxmemory-policy", "allkeys-lru")(t, s)
			return set("maxmemory", "1gb")(t, s)
		}, "noeviction"},
		"replica": {func(t *testing.T, s *realServer) string {
			t.Helper()
			require.NoError(t, s.admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			return s.Addr()
		}, "replica"},
		"busy": {func(t *testing.T, s *realServer) string {
			t.Helper()
			require.NoError(t, s.admin.ConfigSet(t.Context(), "busy-reply-threshold", "1").Err())
			busy(t, s)
			return s.Addr()
		}, "BUSY"},
		"loading": {func(t *testing.T, s *realServer) string { t.Helper(); loading(t, s); return s.Addr() }, "LOADING"},
	} {
		t.Run(name, func(t *testing.T) {
			servers, l := overReal3With(t, "--save", "3600 1")
			warm := l // a client from before, and a new one
			require.NoError(t, warm.Do(t.Context(), "warm", nothing))
			addrs := []string{servers[0].Addr(), c.fault(t, servers[1]), servers[2].Addr()}
			fresh := overAddrs(t, addrs)
			whole(t, fresh)
			if addrs[1] == servers[1].Addr() {
				whole(t, warm)
			}
			reports := fresh.Check(t.Context())
			require.True(t, reports[0].OK && reports[2].OK, "%+v", reports)
			if c.word != "" {
				require.False(t, reports[1].OK)
				all := ""
				for _, f := range reports[1].Findings {
					all += f.What + " " + f.Do + "\n"
				}
				require.Contains(t, all, c.word)
			}
		})
	}
}

func overReal3With(t *testing.T, args ...string) ([]*realServer, *redlock.Locker) {
	t.Helper()
	servers := realServers(t, args...)
	l := overReal(t, servers)
	require.NoError(t, l.Init(t.Context()))
	return servers, l
}

// busy keeps a server in a script that does not end by itself.
func busy(t *testing.T, s *realServer) {
	t.Helper()
	own := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
	var wg sync.WaitGroup
	wg.Go(func() { _ = own.Eval(context.Background(), "while true do end", nil).Err() })
	t.Cleanup(func() {
		_ = s.admin.ScriptKill(context.Background()).Err()
		wg.Wait()
		require.NoError(t, own.Close())
	})
	require.Eventually(t, func() bool {
		err := s.admin.Ping(context.Background()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, 10*time.Second, time.Millisecond)
}

// loading restarts a server that takes long to load what it had saved.
func loading(t *testing.T, s *realServer) {
	t.Helper()
	for i := range 4000 {
		require.NoError(t, s.admin.Set(t.Context(), "filler"+strings.Repeat("x", i%10)+time.Duration(i).String(), "v", 0).Err())
	}
	require.NoError(t, s.admin.ConfigSet(t.Context(), "key-load-delay", "1000").Err(), "the server cannot load slowly")
	require.NoError(t, s.admin.ConfigSet(t.Context(), "loading-process-events-interval-bytes", "1024").Err())
	var wg sync.WaitGroup // DEBUG RELOAD saves, empties, loads
	wg.Go(func() {
		own := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
		_ = own.Do(context.Background(), "DEBUG", "RELOAD").Err()
		_ = own.Close()
	})
	t.Cleanup(wg.Wait)
	require.Eventually(t, func() bool {
		err := s.admin.Ping(context.Background()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	}, 10*time.Second, time.Millisecond)
}

// A node that restarts empty again and again never has a vote, and takes none.
func TestNODE02_ANodeThatRestartsEmptyAgainAndAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client()
		for range 100 {
			w.nodes[1].Forget()
			whole(t, a.Locker)
			whole(t, w.client().Locker)
			w.pass(300 * time.Millisecond)
		}
		w.gone("lock:x")
	})
}

// Without a majority a wait goes on for as long as it was asked to, since nodes
// come back; when one does, it has the name.
func TestNODE03_AMajorityDown(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		w.nodes[0].Kill()
		w.nodes[1].Kill()
		c := w.client()
		var err error
		require.InDelta(t, 1, took(func() {
			_, err = c.Acquire(t.Context(), "x", redlock.WithWait(time.Second))
		}).Seconds(), 0.3)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrHeld)
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, 2, q.Failed, "%v", err)

		time.AfterFunc(500*time.Millisecond, w.nodes[0].Start)
		lease := c.held("x", redlock.WithWait(time.Minute))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// All nodes refuse writes: what must run under the lock does not run.
func TestNODE08_NoWorkWithoutALock(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		for _, n := range w.nodes {
			n.Demote()
		}
		ran := false
		err := w.client().Do(t.Context(), "bill", func(context.Context) error {
			ran = true
			return nil
		}, redlock.WithWait(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.False(t, ran)
	})
}

// The script cache is lost before every step, and all the time: nobody notices.
func TestSYS03_TheScriptCacheIsLost(t *testing.T) {
	servers, l := overReal3(t)
	flush := func() {
		for _, s := range servers {
			require.NoError(t, s.admin.ScriptFlush(t.Context()).Err())
		}
	}
	for range 20 {
		flush()
		lease, err := l.Acquire(t.Context(), "x", redlock.WithLabel("me"))
		require.NoError(t, err)
		flush()
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
		flush()
		s, err := l.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.True(t, s.Held)
		flush()
		require.NoError(t, lease.Release(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = s.admin.ScriptFlush(context.Background()).Err()
			}
		})
	}
	for range 8 {
		wg.Go(func() {
			for range 50 {
				whole(t, l)
			}
			cancel()
		})
	}
	wg.Wait()
}

// A key that is evicted on a majority ends the lease at the next renewal.
func TestSYS11_EvictedKeysAreALoss(t *testing.T) {
	servers, l := overReal3(t)
	lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
	require.NoError(t, err)
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.admin.Exists(t.Context(), "lock:x").Val() == 1 }, time.Second, time.Millisecond)
	}
	for _, s := range servers[:2] {
		require.NoError(t, s.admin.Del(t.Context(), "lock:x").Err())
	}
	<-lease.Context().Done()
	var lost *redlock.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lost)
	require.Equal(t, redlock.LostTaken, lost.Reason)
	require.True(t, time.Now().Before(lost.Until), "told before the validity ended")
}

// Out of memory on all nodes: a holder keeps and releases what it has, a new one
// gets nothing and is told why.
func TestSYS12_OutOfMemory(t *testing.T) {
	servers, l := overReal3(t)
	lease, err := l.Acquire(t.Context(), "x")
	require.NoError(t, err)
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.admin.Exists(t.Context(), "lock:x").Val() == 1 }, time.Second, time.Millisecond)
		require.NoError(t, s.admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	require.NoError(t, lease.Extend(t.Context(), 10*time.Second))
	_, err = l.TryAcquire(t.Context(), "y")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NotErrorIs(t, err, redlock.ErrHeld)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, lease.Release(t.Context()))
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.admin.Exists(t.Context(), "lock:x").Val() == 0 }, time.Second, time.Millisecond)
	}
}
