package redlock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// fenced runs f in virtual time over nodes whose clocks are apart by what is given.
func fenced(t *testing.T, skew []time.Duration, f func(t *testing.T, mems []*memnode.Node, l *Locker), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(len(skew))
		for i, d := range skew {
			mems[i].SkewClock(d, 1)
		}
		opts := append([]Option{WithMaxTTL(time.Second), WithTTL(time.Second), WithFencing()}, opts...)
		l := overMem(t, mems, opts...)
		require.NoError(t, l.Init(t.Context()))
		f(t, mems, l)
	})
}

// grant takes the name and gives it back.
func grant(t *testing.T, l *Locker, opts ...LockOption) Fence {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "x", opts...)
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	return lease.Fence()
}

func TestFenceRises(t *testing.T) {
	for name, skew := range map[string][]time.Duration{
		"one node": {0}, "three": {0, 0, 0}, "skewed": {0, 300 * time.Millisecond, -300 * time.Millisecond},
		"one far off": {0, time.Hour, 0}, "five": {0, 90 * time.Second, 5, -time.Hour, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, skew, func(t *testing.T, _ []*memnode.Node, l *Locker) {
				var last Fence
				for range 200 {
					f := grant(t, l)
					require.Greater(t, f, last)
					require.Less(t, f, Fence(time.Now().Add(2*time.Second).UnixMicro()))
					last = f
				}
			})
		})
	}
}

func TestFenceIsAskedFor(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, mems []*memnode.Node, _ *Locker) {
		l := overMem(t, mems, WithMaxTTL(time.Second), WithTTL(time.Second))
		require.Zero(t, grant(t, l))
		lease, err := l.Acquire(t.Context(), "x", WithFencing(), WithLabel("me"))
		require.NoError(t, err)
		synctest.Wait()
		_, ttl, ok := mems[0].Get("redlock:f:lock:x")
		require.True(t, ok)
		require.Equal(t, time.Hour, ttl)
		was := lease.Fence()
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		require.Equal(t, was, lease.Fence(), "extending does not change it")
		synctest.Wait()
		label, _, _ := mems[0].Get("redlock:l:lock:x")
		require.Equal(t, "me", label)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A grant costs one round trip where the nodes' clocks are alike: one call to each
// node, and its closing check.
func TestFenceTakesOneRoundTrip(t *testing.T) {
	fenced(t, []time.Duration{0, 40 * time.Millisecond, -40 * time.Millisecond}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		grant(t, l) // from here on the clocks are known
		for range 50 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			before := mems[0].Commands()
			lease, err := l.Acquire(t.Context(), "x")
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, 2, mems[0].Commands()-before)
			require.NoError(t, lease.Release(t.Context()))
		}
	})
}

// Every hand-over inside the process has a higher number than the one before, and
// the next acquire a higher one than all of them.
func TestFenceOfHandOvers(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, _ []*memnode.Node, l *Locker) {
		got := make(chan Fence, 100)
		done := make(chan error, 30)
		for range 30 {
			go func() {
				done <- l.Do(t.Context(), "x", func(ctx context.Context) error {
					lease, _ := FromContext(ctx)
					got <- lease.Fence()
					return nil
				})
			}()
		}
		for range 30 {
			require.NoError(t, <-done)
		}
		last, alike := Fence(0), 0
		for range 30 {
			f := <-got
			require.Greater(t, f, last)
			if f == last+1 {
				alike++
			}
			last = f
		}
		require.Greater(t, alike, 15, "hand-overs take the numbers of one block")
	})
}

// Clocks of which no majority agrees give no fence; a lock without one they give.
func TestFenceClockSpread(t *testing.T) {
	fenced(t, []time.Duration{0, time.Minute, -time.Minute}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		_, err := l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrClockSpread)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, "its clock is 1m0s behind the median of the nodes, and a fence allows 753ms; set its clock (NTP)")
		synctest.Wait()
		_, _, ok := mems[0].Get("lock:x")
		require.False(t, ok, "the attempt was undone")
		_, err = overMem(t, mems, WithMaxTTL(time.Second), WithTTL(time.Second)).TryAcquire(t.Context(), "plain")
		require.NoError(t, err)
		mems[1].SkewClock(0, 1)
		require.Positive(t, grant(t, l))
	})
}

// A counter that is far ahead on one node does not lift the others' for ever.
func TestFenceCounterFarAhead(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		mems[1].Put("redlock:f:lock:x", "9000000000000000", time.Hour)
		require.Less(t, grant(t, l), Fence(time.Now().Add(time.Minute).UnixMicro()))
		mems[0].Kill()
		_, err := l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrClockSpread)
		require.ErrorContains(t, err, "delete redlock:f:lock:x there")
		mems[2].Put("redlock:f:lock:x", "no number", time.Hour)
		_, err = l.TryAcquire(t.Context(), "x")
		require.ErrorContains(t, err, "FENCE the counter redlock:f:lock:x is no number")
	})
}

// A write-back that no majority takes gives the name back.
func TestFenceWriteBackFails(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		for i, n := range mems {
			n.Put("redlock:f:lock:x", fmt.Sprint(time.Now().Add(time.Duration(i+1)*100*time.Millisecond).UnixMicro()), time.Hour)
		}
		for _, n := range mems[:2] {
			n.Refuse(seam.Raise, errors.New("OOM command not allowed"))
		}
		_, err := l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "the fence could not be written to a majority")
		require.ErrorContains(t, err, "OOM")
		synctest.Wait()
		for _, n := range mems {
			_, _, ok := n.Get("lock:x")
			require.False(t, ok)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		for _, n := range mems {
			n.Refuse(seam.Raise, nil)
			n.Delay(20 * time.Millisecond) // the second round does not come to an end
		}
		_, err = l.Acquire(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestFenceIsAValuer(t *testing.T) {
	v, err := Fence(7).Value()
	require.NoError(t, err)
	require.Equal(t, driver.Value(int64(7)), v)
	_, err = Fence(1 << 53).Value()
	require.ErrorIs(t, err, ErrConfig)
}

func TestProposal(t *testing.T) {
	lead := fenceLead.Microseconds()
	require.Zero(t, propose(nil, time.Second))
	require.Equal(t, 1_000_005+lead, propose([]int64{5}, time.Second))
	require.Equal(t, 900+lead, propose([]int64{100, 900, 500}, 0))
	require.Equal(t, 900+lead, propose([]int64{100, 900, 500, 1 << 50}, 0), "nobody else would follow that one")
}
