package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/judge"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// shortLag stands for the 12 s that a Cluster's quarantine is longer: with
// WithMaxTTL(1 s) it is then 3.31 s.
const shortLag = 300 * time.Millisecond

// lagged shortens the lag of a Locker that was not used yet.
func lagged(l *Locker, lag time.Duration) *Locker {
	for _, v := range append(l.voters, l.places...) {
		v.n.lag = min(v.n.lag, lag)
	}
	return l
}

// traffic is several goroutines of several clients that want the same names, and
// leases that stand all the while.
type traffic struct {
	t     *testing.T
	start time.Time
	done  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	history judge.History
	last    time.Time // of the last grant
	longest time.Duration
}

func newTraffic(t *testing.T) *traffic {
	now := time.Now()
	return &traffic{t: t, start: now, last: now, done: make(chan struct{})}
}

func (l *traffic) now() time.Duration { return time.Since(l.start) }

func (l *traffic) note(o judge.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, o)
	if o.Kind == judge.Acquire && o.Outcome == judge.OK {
		now := time.Now()
		l.longest = max(l.longest, now.Sub(l.last))
		l.last = now
	}
}

// standstill is the longest time without a grant since it was asked last.
func (l *traffic) standstill() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := max(l.longest, time.Since(l.last))
	l.longest = 0
	return longest
}

// drive lets some goroutines of a client lock the names in turn.
func (l *traffic) drive(client string, locker *Locker, goroutines, names int) {
	for g := range goroutines {
		who := fmt.Sprintf("%s%d", client, g)
		l.wg.Go(func() {
			for !l.over() {
				l.once(who, locker, fmt.Sprintf("name%d", rand.IntN(names)))
			}
		})
	}
}

func (l *traffic) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// once acquires, looks, and releases.
func (l *traffic) once(who string, locker *Locker, name string) {
	ctx := context.Background()
	o := judge.Op{Client: who, Kind: judge.Acquire, Name: name, Start: l.now(), Outcome: judge.Failed}
	lease, err := locker.Acquire(ctx, name, WithWait(200*time.Millisecond))
	o.End = l.now()
	if err != nil {
		l.note(o)
		return
	}
	o.Outcome, o.Token, o.Until = judge.OK, judge.HandedOver(lease.Token(), int(lease.gen)), lease.Until().Sub(l.start)
	l.note(o)
	pause(time.Duration(rand.IntN(8)) * time.Millisecond)
	o.Kind, o.Until = judge.Check, 0
	o.Start = l.now()
	if o.Outcome = judge.OK; lease.Context().Err() != nil {
		o.Outcome = judge.Failed
	}
	o.End = l.now()
	l.note(o)
	o.Kind, o.Start = judge.Release, l.now()
	switch err := lease.Release(ctx); {
	case err == nil:
		o.Outcome = judge.OK
	default:
		o.Outcome = judge.Unknown
	}
	o.End = l.now()
	l.note(o)
}

// stop ends the traffic and puts what it saw before the judge.
func (l *traffic) stop() {
	l.t.Helper()
	close(l.done)
	l.wg.Wait()
	v := judge.Judge(l.history, judge.Options{TTL: time.Second})
	require.True(l.t, v.OK(), "%v", v.Violations)
	require.Greater(l.t, v.Grants, 100)
	l.t.Logf("%d operations, %d grants, %d unknown", v.Ops, v.Grants, v.Unknowns)
}

// pause waits in real time: servers have no other.
func pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// standing are leases that have to survive everything, and a rival who tries to
// get their names.
type standingLeases struct {
	leases []*Lease
	rival  *Locker
}

func stand(t *testing.T, holder, rival *Locker, n int) *standingLeases {
	t.Helper()
	s := &standingLeases{rival: rival}
	for i := range n {
		lease, err := holder.Acquire(t.Context(), fmt.Sprintf("standing%d", i))
		require.NoError(t, err)
		s.leases = append(s.leases, lease)
	}
	return s
}

// alive insists that all of them are, and that nobody else gets their names.
func (s *standingLeases) alive(t *testing.T, when string) {
	t.Helper()
	for i, lease := range s.leases {
		require.NoError(t, lease.Err(), "%s: lease %d", when, i)
		_, err := s.rival.TryAcquire(t.Context(), lease.Names()[0])
		require.Error(t, err, "%s: lease %d has two holders", when, i)
		require.NoError(t, lease.Err(), "%s: lease %d", when, i)
	}
}

// TestClusterUnderLoad is what a Cluster's life brings, one after the other,
// more than a quarantine apart: nothing of it may give a name to two, nor keep
// the majority of the votes from working.
func TestClusterUnderLoad(t *testing.T) {
	c := startCluster(t, 3, 1, "--cluster-require-full-coverage", "no")
	opts := []Option{WithMaxTTL(time.Second), WithTTL(time.Second), WithNodeTimeout(250 * time.Millisecond)}
	a, b := lagged(overCluster(t, c, 3, opts...), shortLag), lagged(overCluster(t, c, 3, opts...), shortLag)
	require.NoError(t, a.Init(t.Context()))
	quarantine := a.places[0].n.quarantine()
	require.Less(t, quarantine, 4*time.Second)
	s := stand(t, a, b, 6)
	load := newTraffic(t)
	load.drive("a", a, 3, 4)
	load.drive("b", b, 3, 4)
	step := func(what string, f func() error) {
		t.Helper()
		load.standstill()
		start := time.Now()
		require.NoError(t, f(), what)
		done := time.Since(start)
		pause(quarantine + time.Second - min(done, time.Second))
		s.alive(t, what)
		still := load.standstill()
		t.Logf("%-28s took %v, longest time without a grant %v", what, done.Round(time.Millisecond), still.Round(time.Millisecond))
		require.Less(t, still, 3*time.Second, "%s: two of three votes go on", what)
	}
	old, heir := c.Masters[0], c.Replicas[0][0]
	step("failover to the replica", func() error { return c.Failover(t.Context(), heir) })
	step("and back", func() error { return c.Failover(t.Context(), old) })
	step("a master killed", func() error { return replaced(t, c, 0) })
	step("three buckets moved", func() error {
		for _, k := range []int{23, 30, 41} {
			if err := c.Migrate(t.Context(), bucketSlot(k), c.Masters[1], c.Masters[2], nil); err != nil {
				return err
			}
		}
		return nil
	})
	load.stop()
	for _, lease := range s.leases {
		require.NoError(t, lease.Release(t.Context()))
	}
}

// replaced kills a master and waits until its replica serves its slots.
func replaced(t *testing.T, c *redisproc.Cluster, i int) error {
	c.Masters[i].Kill()
	require.Eventually(t, func() bool {
		return c.Owner(context.Background(), bucketSlot(0)) == c.Replicas[i][0]
	}, 15*time.Second, 50*time.Millisecond)
	return nil
}
