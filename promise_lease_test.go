package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// P6: the Context is done no later than Until, whatever the network does.
func TestP06_ContextEndsBeforeUntil(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(n *redlocktest.Node)
	}{
		{"hung", (*redlocktest.Node).Hang},
		{"dead", (*redlocktest.Node).Kill},
		{"answers lost", func(n *redlocktest.Node) { n.LoseReplies(true) }},
		{"answers late", func(n *redlocktest.Node) { n.Delay(time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
				lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
				require.NoError(t, err)
				time.Sleep(700 * time.Millisecond) // two renewals
				for i := range 3 {
					c.fault(nodes.At(i))
				}
				<-lease.Context().Done()
				require.False(t, time.Now().After(lease.Until()), "done at %v, valid until %v", time.Now(), lease.Until())
				require.LessOrEqual(t, time.Until(lease.Until()), 50*time.Millisecond, "not needlessly early")
				require.ErrorIs(t, lease.Err(), redlock.ErrLost)
				lost, ok := errors.AsType[*redlock.LostError](context.Cause(lease.Context()))
				require.True(t, ok)
				require.Equal(t, redlock.LostNoQuorum, lost.Reason)
				require.Equal(t, lease.Until(), lost.Until)
				for i := range 3 {
					nodes.At(i).Resume()
					nodes.At(i).LoseReplies(false)
					nodes.At(i).Delay(0)
				}
			})
		})
	}
}

// lateClock is the bubble's clock whose timers come far too late.
type lateClock struct{ late time.Duration }

func (*lateClock) Now() time.Time { return time.Now() }
func (c *lateClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d+c.late, f).Stop
}

func TestP06_ErrComparesTheClockItself(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, _ *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		ctx := lease.Context()
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Second)
		require.Error(t, ctx.Err(), "although no timer has fired yet")
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	}, redlock.WithClock(&lateClock{late: time.Hour}))
}

func TestP06_LeaseWithoutRenewalExpires(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, _ *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		require.NoError(t, err)
		<-lease.Context().Done()
		lost, ok := errors.AsType[*redlock.LostError](lease.Err())
		require.True(t, ok)
		require.Equal(t, redlock.LostExpired, lost.Reason)
		require.False(t, time.Now().After(lease.Until()))
	})
}

// P7: what Release returns.
func TestP07_NilWhenAMajorityDeleted(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		nodes.At(2).Kill()
		start := time.Now()
		require.NoError(t, lease.Release(t.Context()))
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrReleased)
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
		require.ErrorIs(t, context.Cause(lease.Context()), redlock.ErrReleased)
	})
}

func TestP07_LostWhenTheValidityHadEnded(t *testing.T) {
	for _, held := range []bool{false, true} {
		bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
			lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
			if held {
				for i := range 3 {
					nodes.At(i).Put("lock:x", "another", time.Minute)
				}
			}
			start := time.Now()
			err = lease.Release(t.Context())
			require.ErrorIs(t, err, redlock.ErrLost)
			require.Equal(t, start, time.Now(), "at once, without a retry")
			require.Equal(t, err, lease.Release(t.Context()), "the same again")
			synctest.Wait()
			if held {
				for i := range 3 {
					v, _, _ := nodes.At(i).Get("lock:x")
					require.Equal(t, "another", v)
				}
			}
		})
	}
}

func TestP07_LostWhenAMajorityNoLongerHadIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		nodes.At(0).Delete("lock:x")
		nodes.At(1).Delete("lock:x")
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
	})
}

func TestP07_ANodeThatForgotSpeaksNotAgainstIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		nodes.At(0).Flush() // under the live connection: only the closing check shows it
		nodes.At(1).Forget()
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestP07_NoMajorityAnswersAndTryingAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		for i := range 3 {
			nodes.At(i).Hang()
		}
		start := time.Now()
		err = lease.Release(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, 250*time.Millisecond, time.Since(start), "the node timeout")
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased, "it is over for its holder")
		for i := range 3 {
			nodes.At(i).Resume()
		}
		require.NoError(t, lease.Release(t.Context()), "the second call finishes what the first could not")
		free(t, nodes, "lock:x")
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrReleased)
	})
}

func TestP07_OneOfConcurrentCallersWorks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, _ *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		var wg sync.WaitGroup
		var ok, again atomic.Int32
		for range 10 {
			wg.Go(func() {
				switch err := lease.Release(t.Context()); {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, redlock.ErrReleased):
					again.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, ok.Load())
		require.EqualValues(t, 9, again.Load())
	})
}

// P8: after Release or loss nothing brings a key back.
func TestP08_NothingIsWrittenAfterTheEnd(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		for i := range 3 {
			nodes.At(i).Delay(80 * time.Millisecond)
		}
		for range 100 { // timed to hit a renewal: one is due every 100 ms
			lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(300*time.Millisecond))
			require.NoError(t, err)
			time.Sleep(90*time.Millisecond + time.Duration(time.Now().UnixNano()%20)*time.Millisecond)
			require.NoError(t, lease.Release(t.Context()))
			synctest.Wait()
			time.Sleep(200 * time.Millisecond)
			free(t, nodes, "lock:x")
		}
	})
}

func TestP08_AHungNodeKeepsNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		nodes.At(4).Hang()
		for range 20 {
			lease, err := l.Acquire(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		}
		nodes.At(4).Resume()
		time.Sleep(time.Second)
		free(t, nodes, "lock:x")
	})
}

// P9: Extend.
func TestP09_ExtendLengthensAndNeverShortens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, _ *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		require.NoError(t, err)
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second))
		long := lease.Until()
		require.InDelta(t, 4.948, time.Until(long).Seconds(), 0.001)
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		require.Equal(t, long, lease.Until())
		require.ErrorIs(t, lease.Extend(t.Context(), time.Hour), redlock.ErrConfig)
		require.NoError(t, lease.Release(t.Context()))
		require.ErrorIs(t, lease.Extend(t.Context(), time.Second), redlock.ErrReleased)
	})
}

func TestP09_AFailedExtendKeepsTheOldValidity(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(5*time.Second), redlock.WithoutRenewal())
		require.NoError(t, err)
		until := lease.Until()
		nodes.At(0).Hang()
		nodes.At(1).Hang()
		err = lease.Extend(t.Context(), 5*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, until, lease.Until())
		require.NoError(t, lease.Err())
		nodes.At(0).Resume()
		nodes.At(1).Resume()
		require.NoError(t, lease.Extend(t.Context(), 5*time.Second), "the key was never deleted in between")
		require.True(t, lease.Until().After(until))
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, lease.Extend(t.Context(), time.Second), redlock.ErrLost)
	})
}

func TestP09_AnExtendThatIsTooLateFails(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(500*time.Millisecond), redlock.WithoutRenewal())
		require.NoError(t, err)
		for i := range 3 {
			nodes.At(i).Delay(600 * time.Millisecond)
		}
		require.Error(t, lease.Extend(t.Context(), 500*time.Millisecond))
		for i := range 3 {
			nodes.At(i).Delay(0)
		}
	}, redlock.WithNodeTimeout(2*time.Second))
}

// P10: max hold and Close end Contexts and leave the key.
func TestP10_MaxHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		start := time.Now()
		lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second), redlock.WithMaxHold(5*time.Second))
		require.NoError(t, err)
		<-lease.Context().Done()
		require.Equal(t, 5*time.Second, time.Since(start))
		lost, ok := errors.AsType[*redlock.LostError](lease.Err())
		require.True(t, ok)
		require.Equal(t, redlock.LostMaxHold, lost.Reason)
		synctest.Wait()
		_, ttl, ok := nodes.At(0).Get("lock:x")
		require.True(t, ok, "its holder may still work")
		require.LessOrEqual(t, ttl, time.Second)
		other, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 6200*time.Millisecond)
		require.NoError(t, other.Release(t.Context()))
	})
}

func TestP10_ReleaseAfterMaxHoldFrees(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x", redlock.WithMaxHold(time.Second))
		require.NoError(t, err)
		<-lease.Context().Done()
		require.NoError(t, lease.Release(t.Context()))
		free(t, nodes, "lock:x")
	})
}

func TestP10_Close(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		waiter := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := l.Acquire(context.Background(), "x")
				waiter <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-waiter, redlock.ErrClosed)
		require.ErrorIs(t, <-waiter, redlock.ErrClosed)
		lost, ok := errors.AsType[*redlock.LostError](context.Cause(lease.Context()))
		require.True(t, ok)
		require.Equal(t, redlock.LostClosed, lost.Reason)
		_, _, there := nodes.At(0).Get("lock:x")
		require.True(t, there, "the key is left to its TTL")
		_, err = l.TryAcquire(t.Context(), "y")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
	})
}

// P11: what stands on the nodes is what redsync and redislock write.
func TestP11_BareTokenUnderTheBareName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, l *redlock.Locker, nodes *redlocktest.Nodes) {
		lease, err := l.Acquire(t.Context(), "orders:7")
		require.NoError(t, err)
		synctest.Wait()
		for i := range 3 {
			v, ttl, ok := nodes.At(i).Get("orders:7")
			require.True(t, ok)
			require.Equal(t, lease.Token(), v)
			require.Greater(t, ttl, 9*time.Second)
		}
		require.NoError(t, lease.Release(t.Context()))
		free(t, nodes, "orders:7")

		for i := range 2 {
			nodes.At(i).Put("orders:7", "redsync's", time.Minute)
		}
		_, err = l.TryAcquire(t.Context(), "orders:7")
		require.ErrorIs(t, err, redlock.ErrHeld)
		v, _, _ := nodes.At(0).Get("orders:7")
		require.Equal(t, "redsync's", v)
	}, redlock.WithKeyPrefix(""))
}
