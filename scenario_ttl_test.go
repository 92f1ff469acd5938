package redlock_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// movedClock is the system's clock, whose wall part and whose suspended time a
// test moves. In a bubble its time is virtual.
type movedClock struct {
	mu         sync.Mutex
	start      time.Time
	wall, boot time.Duration
}

func newMovedClock() *movedClock { return &movedClock{start: time.Now()} }

func (*movedClock) Now() time.Time { return time.Now() }

func (*movedClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (c *movedClock) Instant() (mono, boot, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono = time.Since(c.start)
	return mono, mono + c.boot, mono + c.wall
}

func (c *movedClock) move(wall, boot time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += wall
	c.boot += boot
}

// A wall clock that steps back changes nothing: lease, renewal and waits go by
// the monotonic clock. One that steps forward by an hour ends the lease, since it
// looks like a suspended machine; nobody believes to hold what may be gone.
func TestTTL02_TheClientsWallClockMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newMovedClock()
		l, _ := redlocktest.NewLocker(t, 3, redlock.WithClock(clock))
		lease, err := l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		for range 5 {
			clock.move(-time.Hour, 0)
			time.Sleep(20 * time.Second)
			require.NoError(t, lease.Err())
		}
		require.NoError(t, lease.Extend(t.Context(), 10*time.Second))
		start := time.Now()
		_, err = l.Acquire(t.Context(), "x", redlock.WithWait(3*time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.InDelta(t, 3, time.Since(start).Seconds(), 0.5)
		require.NoError(t, lease.Release(t.Context()))

		lease, err = l.Acquire(t.Context(), "x")
		require.NoError(t, err)
		clock.move(time.Hour, 0)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
		require.NoError(t, l.Do(t.Context(), "x", nothing), "the name is free, and the Locker works on")
	})
}

// A key that goes away on one node costs nothing, however often; on two of three
// the next renewal says lost, and another may win.
func TestTTL02_AKeyGoesAway(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		lease := a.held("x")
		random := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			w.nodes[random.IntN(3)].Delete("lock:x")
			// Three renewals, at the least: a node that lost the key counts again after
			// a round that succeeded without it.
			time.Sleep(11*time.Second + time.Duration(random.IntN(4000))*time.Millisecond)
			require.NoError(t, lease.Err())
			_, err := b.TryAcquire(t.Context(), "x")
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		w.nodes[0].Delete("lock:x")
		w.nodes[1].Delete("lock:x")
		at := time.Now()
		<-lease.Context().Done()
		require.Less(t, time.Since(at), 10*time.Second/3+time.Second)
		var lost *redlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, redlock.LostTaken, lost.Reason)
		require.NoError(t, b.held("x").Release(t.Context()))
	})
}

// Go's monotonic clock stands still while the machine is suspended. The lease
// counts by the clock that went furthest.
func TestTTL03_ASuspendedMachine(t *testing.T) {
	for name, c := range map[string]struct{ wall, boot time.Duration }{
		"both say it":                         {time.Hour, time.Hour},
		"only CLOCK_BOOTTIME (wall set back)": {0, time.Hour},
		"only the wall clock (VM snapshot)":   {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newMovedClock()
				l, _ := redlocktest.NewLocker(t, 3, redlock.WithClock(clock))
				lease, err := l.Acquire(t.Context(), "x")
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.NoError(t, lease.Err())
				clock.move(c.wall, c.boot)
				require.ErrorIs(t, lease.Err(), redlock.ErrLost, "at once, not when a timer fires")
				require.Error(t, lease.Context().Err())
			})
		})
	}
}

func TestTTL04_ExtremeDurations(t *testing.T) {
	year := 365 * 24 * time.Hour
	virtual(t, 3, func(t *testing.T, w *world) {
		a := w.client(redlock.WithMaxTTL(year))
		for _, ttl := range []time.Duration{0, -time.Second, 999 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond, 3 * time.Millisecond} {
			_, err := a.TryAcquire(t.Context(), "x", redlock.WithTTL(ttl))
			configError(t, err, "10ms")
		}
		require.Empty(t, a.sent)
		lease := a.held("x", redlock.WithTTL(year), redlock.WithoutRenewal())
		w.pass(time.Millisecond) // the third node may be asked after the verdict
		for _, n := range w.nodes {
			_, ttl, ok := n.Get("lock:x")
			require.True(t, ok)
			require.InDelta(t, year, ttl, float64(time.Second), "stored exactly")
		}
		for _, ttl := range []time.Duration{0, -1, year + 1, 1<<63 - 1} {
			configError(t, lease.Extend(t.Context(), ttl))
		}
		until := lease.Until()
		require.NoError(t, lease.Extend(t.Context(), time.Second), "a shorter one is taken, and shortens nothing")
		require.Equal(t, until, lease.Until())
		require.NoError(t, lease.Release(t.Context()))

		short := a.held("y", redlock.WithTTL(10*time.Millisecond+500*time.Microsecond), redlock.WithoutRenewal())
		_, ttl, _ := w.nodes[0].Get("lock:y")
		require.Equal(t, 11*time.Millisecond, ttl, "rounded up, so a key never lives less than its lease")
		require.Less(t, time.Until(short.Until()), 11*time.Millisecond)
	}, redlock.WithMaxTTL(365*24*time.Hour))
}

// What is not held is not valid, and an answer that comes after the end of the
// lease does not make it valid.
func TestTTL06_NoValidityByASlowAnswer(t *testing.T) {
	virtual(t, 5, func(t *testing.T, w *world) {
		a := w.client(redlock.WithNodeTimeout(2 * time.Second))
		lease := a.held("x", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		for i := range w.nodes {
			w.nodes[i].Delay(1500 * time.Millisecond)
		}
		err := lease.Extend(t.Context(), time.Second)
		require.Error(t, err, "the answers came after the end")
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
	})
	virtual(t, 3, func(t *testing.T, w *world) { // an acquire whose majority came too late
		a := w.client(redlock.WithNodeTimeout(2 * time.Second))
		w.warm(a)
		for i := range w.nodes {
			w.nodes[i].Delay(150 * time.Millisecond)
		}
		_, err := a.TryAcquire(t.Context(), "x", redlock.WithTTL(100*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrHeld)
		time.Sleep(time.Second)
		w.gone("lock:x")
	})
	virtual(t, 3, func(t *testing.T, w *world) { // nothing was ever acquired
		_, ok := redlock.FromContext(t.Context())
		require.False(t, ok)
	})
}

// Short jobs on hosts whose timers differ: the name is kept for as long as it was
// asked for, so the late ones find it held.
func TestTTL07_ShortJobsRunOnce(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		ran := 0
		for _, late := range []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond} {
			time.Sleep(late)
			lease, err := w.client().TryAcquire(t.Context(), "job", redlock.WithMinHold(time.Second))
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrHeld)
				continue
			}
			ran++
			require.NoError(t, lease.Release(t.Context()))
			require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
		}
		require.Equal(t, 1, ran)
		time.Sleep(time.Second)
		w.gone("lock:job")
	})
}
