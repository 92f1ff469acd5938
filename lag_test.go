package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// laggingDialer is a vote whose deposed server may go on granting for lag.
type laggingDialer struct {
	seam.Dialer
	lag time.Duration
}

func (d laggingDialer) Lag() time.Duration { return d.lag }

// storyNoLag is one vote with two truths (hazard H12): A's side of a cut still
// has the old master, which stops for want of replicas after ten seconds; B's
// side has the new one.
func storyNoLag(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		old, promoted := memnode.New("old", nil), memnode.New("promoted", nil)
		over := func(n *memnode.Node) *Locker {
			l, err := New([]Node{NodeOver(laggingDialer{n.Dialer(), deposedFor})}, WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m))
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
		a, b := over(old), over(promoted)
		require.NoError(t, a.Init(t.Context()))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		stops := time.AfterFunc(10*time.Second, func() {
			for _, op := range []seam.Op{seam.Acquire, seam.Extend} {
				old.Refuse(op, errors.New("NOREPLICAS Not enough good replicas to write."))
			}
		})
		defer stops.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err = b.Acquire(ctx, "x")
		require.NoError(t, err)
		if lease.Err() == nil {
			sin = "two holders, one on each side of a cut through a group"
		}
		require.Equal(t, m == 0, time.Since(start) > deposedFor)
	})
	return sin
}

// The longer quarantine is written on the node, and told to who waits.
func TestLagLengthensTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(3)
		var nodes []Node
		for _, m := range mems {
			nodes = append(nodes, NodeOver(laggingDialer{m.Dialer(), deposedFor}))
		}
		l, err := New(nodes, WithMaxTTL(time.Second), WithTTL(time.Second))
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		require.NoError(t, l.Init(t.Context()))
		mems[0].Forget()
		_, _ = l.TryAcquire(t.Context(), "x")
		synctest.Wait()
		time.Sleep(time.Second)
		_, ttl, ok := mems[0].Get("redlock:quarantine:lock:")
		require.True(t, ok)
		require.InDelta(t, (quarantineFor(time.Second) + deposedFor - time.Second).Seconds(), ttl.Seconds(), 0.1)
		require.NoError(t, l.Reseal(t.Context()))
		_, ttl, ok = mems[1].Get("redlock:quarantine:lock:")
		require.True(t, ok)
		require.Equal(t, quarantineFor(time.Second)+deposedFor, ttl)
		time.Sleep(ttl - time.Millisecond)
		_, err = l.TryAcquire(t.Context(), "y")
		require.ErrorIs(t, err, ErrQuarantined)
		time.Sleep(2 * time.Second)
		lease, err := l.TryAcquire(t.Context(), "y")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	})
}
