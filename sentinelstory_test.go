package redlock

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// fakeGroup is a Sentinel group of in-memory servers, as one client sees it.
type fakeGroup struct {
	mems []*memnode.Node
	mu   sync.Mutex
	said []sentinelSaid // per sentinel; one without id is out of reach
}

func newFakeGroup(mems []*memnode.Node) *fakeGroup {
	return &fakeGroup{mems: mems, said: make([]sentinelSaid, 3)}
}

// names lets the given sentinels, or all, name a master.
func (f *fakeGroup) names(mem int, epoch int64, sentinels ...int) *fakeGroup {
	if len(sentinels) == 0 {
		sentinels = []int{0, 1, 2}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range sentinels {
		f.said[i] = sentinelSaid{id: fakeAddr(i), known: true, master: fakeAddr(mem), epoch: epoch}
	}
	return f
}

func (f *fakeGroup) ask(addr, _ string, _ time.Duration) (sentinelSaid, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.said[fakeIndex(addr)]; s.id != "" {
		return s, nil
	}
	return sentinelSaid{}, errors.New("connection refused")
}

func (f *fakeGroup) listen(string, time.Duration) (seam.Ear, error) {
	return nil, errors.New("connection refused")
}

func (f *fakeGroup) dial(addr string, timeout time.Duration) (seam.Conn, error) {
	return f.mems[fakeIndex(addr)].Dialer().Dial(timeout)
}

func (f *fakeGroup) listenMaster(addr, channel string, timeout time.Duration) (seam.Ear, error) {
	return f.mems[fakeIndex(addr)].Dialer().(seam.Listener).Listen(channel, timeout)
}

func overGroup(t *testing.T, f *fakeGroup, opts ...Option) *Locker {
	t.Helper()
	g := &group{name: "g", addrs: []string{fakeAddr(0), fakeAddr(1), fakeAddr(2)}, wire: f}
	l, err := New([]Node{{dialer: g, where: "g"}}, append([]Option{WithMaxTTL(time.Second), WithTTL(time.Second)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// twoMasters is a group whose old master, 0, is sealed and serves, and whose new
// one, 1, is out of quarantine and has granted x to a lease that is renewed.
func twoMasters(t *testing.T, before func(mems []*memnode.Node)) (mems []*memnode.Node, held *Lease) {
	t.Helper()
	mems = memNodes(2)
	require.NoError(t, overGroup(t, newFakeGroup(mems).names(0, 1)).Init(t.Context()))
	if before != nil {
		before(mems)
	}
	held, err := overGroup(t, newFakeGroup(mems).names(1, 2)).Acquire(t.Context(), "x")
	require.NoError(t, err)
	return mems, held
}

// double says whether a second holder of x was found.
func double(t *testing.T, l *Locker, held *Lease) (sin string) {
	t.Helper()
	second, err := l.TryAcquire(t.Context(), "x")
	if err == nil && held.Err() == nil {
		_ = second.Release(t.Context())
		sin = "an old master gave away what its successor had given"
	}
	require.NoError(t, held.Release(t.Context()))
	return sin
}

// storyFirstSentinel is hazard H12: one sentinel is on the old master's side of a
// cut, with a client.
func storyFirstSentinel(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		mems, held := twoMasters(t, nil)
		sin = double(t, overGroup(t, newFakeGroup(mems).names(0, 1, 2), withMutant(m)), held)
	})
	return sin
}

// storyEpochBack: the sentinels are restored from a time before the failover.
func storyEpochBack(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		mems, held := twoMasters(t, nil)
		f := newFakeGroup(mems).names(1, 2)
		l := overGroup(t, f, withMutant(m))
		_, err := l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrHeld)
		f.names(0, 1)
		time.Sleep(1500 * time.Millisecond)
		sin = double(t, l, held)
	})
	return sin
}

// storyKeptLanes is hazard H12: a client has a connection to the old master, which
// still serves, and all sentinels know of the new one.
func storyKeptLanes(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		var f *fakeGroup
		var l *Locker
		_, held := twoMasters(t, func(mems []*memnode.Node) {
			f = newFakeGroup(mems).names(0, 1)
			l = overGroup(t, f, withMutant(m))
			lease, err := l.Acquire(t.Context(), "warm")
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
			f.names(1, 2)
		})
		sin = double(t, l, held)
	})
	return sin
}

func TestSentinelViewNeedsAMajorityOfTheConfigured(t *testing.T) {
	say := func(id, master string, epoch int64, others ...string) sentinelSaid {
		return sentinelSaid{id: id, known: true, master: master, epoch: epoch, others: others}
	}
	v := newSentinelView("g", 1, false)
	v.learn("h1:1", say("a", "m:1", 1, "b", "c"))
	_, ok := v.master()
	require.False(t, ok, "one of three, although one alone was given")
	v.learn("10.0.0.1:1", say("a", "m:1", 1, "b", "c"))
	_, ok = v.master()
	require.False(t, ok, "the same one under another address")
	v.learn("h2:1", say("b", "m:1", 3, "a", "c"))
	m, ok := v.master()
	require.True(t, ok)
	require.Equal(t, named{"m:1", 3}, m, "the highest epoch of those who agree")

	v = newSentinelView("g", 3, false)
	v.learn("h1:1", say("a", "m:1", 1))
	v.learn("h2:1", say("b", "m:2", 2))
	require.ErrorContains(t, v.unsettled(), "different masters")
	require.NotErrorIs(t, v.unsettled(), ErrConfig)
}
