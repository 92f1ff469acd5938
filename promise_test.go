package redlock_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The promises are those of the design, section 3. Each has tests named after
// it; one without fails the table below.
const promises = 11

func TestEveryPromiseHasATest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	found := map[string]bool{}
	name := regexp.MustCompile(`^TestP(\d\d)_`)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if m := name.FindStringSubmatch(f.Name.Name); m != nil {
				found[m[1]] = true
			}
		}
	}
	for i := 1; i <= promises; i++ {
		number := string([]byte{byte('0' + i/10), byte('0' + i%10)})
		require.True(t, found[number], "promise P%s has no test", number)
	}
}

// bubble runs f in virtual time over n in-memory nodes.
func bubble(t *testing.T, n int, f func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, nodes := redlocktest.NewLocker(t, n, opts...)
		f(t, l, nodes)
	})
}

// P1: held and no quorum are never both true of one error.
func TestP01_HeldAndNoQuorumExclude(t *testing.T) {
	for _, c := range []struct {
		name     string
		taken    int // nodes where another's key stands
		dead     int
		want, no error
	}{
		{"three taken", 3, 0, redlock.ErrHeld, redlock.ErrNoQuorum},
		{"three dead", 0, 3, redlock.ErrNoQuorum, redlock.ErrHeld},
		{"two taken, one dead", 2, 1, redlock.ErrHeld, redlock.ErrNoQuorum},
		{"one taken, two dead", 1, 2, redlock.ErrNoQuorum, redlock.ErrHeld},
		{"two taken, one free", 2, 0, redlock.ErrHeld, redlock.ErrNoQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
				for i := range c.taken {
					nodes.At(i).Put("lock:x", "another", time.Minute)
				}
				for i := range c.dead {
					nodes.At(2 - i).Kill()
				}
				lease, err := l.TryAcquire(t.Context(), "x")
				require.Nil(t, lease)
				require.ErrorIs(t, err, c.want)
				require.NotErrorIs(t, err, c.no)
				q, ok := errors.AsType[*redlock.QuorumError](err)
				require.True(t, ok)
				require.Equal(t, 3, q.Granted+q.Held+q.Failed+q.Pending)
				require.Equal(t, 2, q.Need)
			})
		})
	}
}

func TestP01_QuarantineIsInTheChainOfNoQuorum(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		nodes.At(0).Forget()
		nodes.At(1).Forget()
		_, err := l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		require.NotErrorIs(t, err, redlock.ErrHeld)
	})
}

// P2: a node's trouble costs its own vote; configuration ends a call only when
// no majority is possible without the nodes that have it.
func TestP02_AnEvictingNodeCostsItsVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		l := nodes.NewLocker(t)
		require.NoError(t, l.Init(t.Context()))
		fresh := nodes.NewLocker(t)
		nodes.At(0).SetMaxMemory(1<<20, "allkeys-lru")
		lease, err := fresh.TryAcquire(t.Context(), "x")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))

		nodes.At(1).SetMaxMemory(1<<20, "allkeys-lru")
		other := nodes.NewLocker(t)
		_, err = other.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "noeviction")
		require.ErrorContains(t, err, "mem0")
		require.ErrorContains(t, err, "mem1")
	})
}

func TestP02_AForeignSealAnywhereEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		require.NoError(t, nodes.NewLocker(t).Init(t.Context()))
		other := nodes.NewLocker(t, redlock.WithMaxTTL(20*time.Second))
		_, err := other.Acquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "max TTL 10s")
		require.ErrorContains(t, err, "max TTL 20s")
		require.ErrorContains(t, err, "redlock init --replace")
		free(t, nodes, "lock:x")
	})
}

func TestP02_BadArgumentsBeforeAnyIO(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		for i := range 3 {
			nodes.At(i).Hang() // I/O would not come back
		}
		for _, c := range []struct {
			what string
			name string
			opt  redlock.LockOption
		}{
			{"name", "", redlock.WithTTL(time.Second)},
			{"name", strings.Repeat("x", 513), redlock.WithTTL(time.Second)},
			{"name", "a\x00b", redlock.WithTTL(time.Second)},
			{"name", "a\nb", redlock.WithTTL(time.Second)},
			{"name", "\xff", redlock.WithTTL(time.Second)},
			{"TTL", "x", redlock.WithTTL(0)},
			{"TTL", "x", redlock.WithTTL(-time.Second)},
			{"TTL", "x", redlock.WithTTL(999 * time.Microsecond)},
			{"TTL", "x", redlock.WithTTL(9 * time.Millisecond)},
			{"TTL", "x", redlock.WithTTL(11 * time.Second)},
			{"TTL", "x", redlock.WithTTL(1<<63 - 1)},
			{"wait", "x", redlock.WithWait(-2)},
			{"max hold", "x", redlock.WithMaxHold(0)},
			{"min hold", "x", redlock.WithMinHold(time.Minute)},
			{"label", "x", redlock.WithLabel("a\x07")},
			{"backoff", "x", redlock.WithBackoff(nil)},
		} {
			before := time.Now()
			_, err := l.Acquire(t.Context(), c.name, c.opt)
			conf, ok := errors.AsType[*redlock.ConfigError](err)
			require.True(t, ok, "%s: %v", c.what, err)
			require.Equal(t, c.what, conf.What)
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.Equal(t, before, time.Now(), "took time")
		}
	})
}

// P3: Acquire waits through everything that time mends.
func TestP03_WaitsThroughHeldNoQuorumAndQuarantine(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
			for i := range 3 {
				nodes.At(i).Put("lock:x", "another", 4*time.Second)
			}
			start := time.Now()
			lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
			require.NoError(t, err)
			require.InDelta(t, 4, time.Since(start).Seconds(), 0.6)
			require.Greater(t, time.Until(lease.Until()), 900*time.Millisecond, "a fresh, full TTL")
			require.NoError(t, lease.Release(t.Context()))
		})
	})
	t.Run("no quorum", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
			nodes.At(0).Hang()
			nodes.At(1).Hang()
			time.AfterFunc(3*time.Second, nodes.At(0).Resume)
			lease, err := l.Acquire(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
			nodes.At(1).Resume()
		})
	})
	t.Run("quarantine", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
			nodes.At(0).Forget()
			nodes.At(1).Forget()
			start := time.Now()
			lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), 3010*time.Millisecond)
			require.Less(t, time.Since(start), 5*time.Second)
			require.NoError(t, lease.Release(t.Context()))
		}, redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second))
	})
}

func TestP03_EndOfContextCarriesTheVerdict(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		for i := range 3 {
			nodes.At(i).Put("lock:x", "another", time.Minute)
		}
		cause := errors.New("the shop closes")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, cause)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Equal(t, 200*time.Millisecond, time.Since(start))

		cancelled, stop := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, stop)
		_, err = l.Acquire(cancelled, "x")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrHeld)
	})
}

func TestP03_EndOfWaitGivesTheVerdictAlone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		for i := range 3 {
			nodes.At(i).Put("lock:x", "another", time.Minute)
		}
		start := time.Now()
		_, err := l.Acquire(t.Context(), "x", redlock.WithWait(time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 1, time.Since(start).Seconds(), 0.05)
		q, ok := errors.AsType[*redlock.QuorumError](err)
		require.True(t, ok)
		require.InDelta(t, 59, q.RetryAfter.Seconds(), 1.1, "what is left of the holder's lease")
	})
}

// P4: the context of Acquire bounds the call, not the lease.
func TestP04_TheLeaseOutlivesTheCallsContext(t *testing.T) {
	type key struct{}
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, _ *redlocktest.Nodes) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		lease, err := l.Acquire(ctx, "x")
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err(), "renewal goes on")
		require.NoError(t, lease.Context().Err())
		require.Equal(t, "kept", lease.Context().Value(key{}))
		require.NoError(t, lease.Release(ctx), "a release under a cancelled context works")
	})
}

func TestP04_AnUnreachableLeaseIsFound(t *testing.T) {
	l, nodes := redlocktest.NewLocker(t, 3, redlock.WithMaxTTL(time.Second), redlock.WithTTL(300*time.Millisecond))
	func() {
		_, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		_, _, ok := nodes.At(0).Get("lock:x")
		return !ok
	}, 10*time.Second, 50*time.Millisecond, "the lease is still renewed, although nobody can release it")
}

// P5: what Do returns, and when it releases.
func TestP05_DoReturns(t *testing.T) {
	mine := errors.New("mine")
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		require.NoError(t, l.Do(t.Context(), "x", func(context.Context) error { return nil }))
		require.ErrorIs(t, l.Do(t.Context(), "x", func(context.Context) error { return mine }), mine)
		free(t, nodes, "lock:x")

		err := l.Do(t.Context(), "x", func(ctx context.Context) error {
			synctest.Wait() // all three have it
			for i := range 2 {
				nodes.At(i).Delete("lock:x")
			}
			<-ctx.Done()
			lost, ok := errors.AsType[*redlock.LostError](context.Cause(ctx))
			require.True(t, ok)
			require.Equal(t, redlock.LostTaken, lost.Reason)
			return mine
		})
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, redlock.ErrLost)

		err = l.Do(t.Context(), "x", func(context.Context) error {
			synctest.Wait()
			for i := range 2 {
				nodes.At(i).Delete("lock:x")
			}
			time.Sleep(20 * time.Second)
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost, "work that overran is no success")
	})
}

func TestP05_DoReleasesOnPanicAndGoexit(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		require.PanicsWithValue(t, "boom", func() {
			_ = l.Do(t.Context(), "x", func(context.Context) error { panic("boom") })
		})
		free(t, nodes, "lock:x")
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = l.Do(t.Context(), "x", func(context.Context) error { runtime.Goexit(); return nil })
		})
		wg.Wait()
		free(t, nodes, "lock:x")
	})
}

func TestP05_DoFollowsTheCallersContext(t *testing.T) {
	cause := errors.New("deadline of the request")
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := l.Do(ctx, "x", func(ctx context.Context) error {
			cancel(cause)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), cause)
			lease, ok := redlock.FromContext(ctx)
			require.True(t, ok)
			require.NoError(t, lease.Err(), "cancelling the call does not lose the lease")
			return nil
		})
		require.NoError(t, err)
		free(t, nodes, "lock:x")
	})
}

// free waits until nothing stands at a key on any node: undo and stragglers are
// behind the caller's back.
func free(t *testing.T, nodes *redlocktest.Nodes, key string) {
	t.Helper()
	synctest.Wait()
	for i := range nodes.Len() {
		_, _, ok := nodes.At(i).Get(key)
		require.False(t, ok, "node %d still has %s", i, key)
	}
}
