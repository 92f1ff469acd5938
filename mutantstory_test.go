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

// The stories of the mutants: each tells what went wrong, or "" when nothing did.

// story runs f in virtual time, over three nodes and two clients of which the
// second has its lanes open.
func story(t *testing.T, m mutant, f func(t *testing.T, mems []*memnode.Node, a, b *Locker) string, opts ...Option) (sin string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(3)
		opts := append([]Option{WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m)}, opts...)
		a, b := overMem(t, mems, opts...), overMem(t, mems, opts...)
		require.NoError(t, a.Init(t.Context()))
		require.NoError(t, b.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		sin = f(t, mems, a, b)
	})
	return sin
}

func storyWonLate(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		require.NoError(t, a.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		for _, n := range mems {
			n.Delay(150 * time.Millisecond)
		}
		lease, err := a.TryAcquire(t.Context(), "x", WithTTL(100*time.Millisecond), WithoutRenewal())
		if err == nil && lease.Until().Before(time.Now()) {
			return "a lease was handed out that had ended"
		}
		return ""
	}, WithNodeTimeout(500*time.Millisecond))
}

// storyLateExtend: the answers to an Extend come after the end.
func storyLateExtend(t *testing.T, m mutant) string {
	h := &hold{drift: Drift{Fixed: time.Millisecond}, ttl: time.Second, nodes: make([]nodeHold, 3), round: newRound(3, nil), mutant: m}
	for i := range h.nodes {
		h.voted(i, &answer{vote: voteGranted})
	}
	require.True(t, h.won(moment{}))
	sent := moment{instant: at(900*time.Millisecond, 0, 0)}
	seq := h.extendAll(time.Second, sent)
	after := moment{instant: at(1100*time.Millisecond, 0, 0)}
	for i := range h.nodes {
		if h.extended(i, seq, &answer{code: seam.Mine}, after) == roundKept {
			return "a lease that had ended was alive again"
		}
	}
	return ""
}

// storyStrangers is a lease on a bare majority, one of which forgets.
func storyStrangers(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		mems[2].Refuse(seam.Acquire, errors.New("OOM command not allowed"))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		mems[2].Refuse(seam.Acquire, nil)
		mems[1].Forget()
		time.Sleep(5 * time.Second)
		if lease.Err() != nil {
			return "the lease was given up, although it could be carried through"
		}
		return ""
	})
}

// storyReadded: while A's key was gone from one node, B had the name and gave it
// back. A node that sets A's key again proves nothing about that time.
func storyReadded(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) string {
		mems[2].Refuse(seam.Acquire, errors.New("OOM command not allowed"))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		mems[2].Refuse(seam.Acquire, nil)
		mems[1].Delete("lock:x")
		theirs, err := b.TryAcquire(t.Context(), "x")
		require.NoError(t, err)
		require.NoError(t, theirs.Release(t.Context()))
		time.Sleep(3 * time.Second)
		if lease.Err() == nil {
			return "a lease went on, although another had held its name meanwhile"
		}
		return ""
	})
}

func storyReplica(t *testing.T, m mutant) string {
	n := newNode(0, "node", 0, newWard([]string{"node"}, modeStrict, defaultPrefix, time.Second), time.Second)
	n.ward.mutant = m
	r := &seam.Reply{Code: seam.OK, Replid: "abc", Seal: n.ward.spec(0).text(0, "abc")}
	if n.assess(r, moment{}).ok {
		return "a writable replica had a vote"
	}
	return ""
}

// storyForeign: a client that believes in N = 1 asks a node of three.
func storyForeign(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		_, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		mems[0].Delete("lock:x") // the client of one is lucky, a minority of three lost it
		one := overMem(t, mems[:1], WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m))
		if _, err := one.TryAcquire(t.Context(), "x"); err == nil {
			return "a second holder, by one of three nodes"
		}
		return ""
	})
}

// storySealEarly: a client that believes in N = 1 meets a node that forgot.
func storySealEarly(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, _, _ *Locker) string {
		synctest.Wait() // what the others have yet to send is through, and they don't seal it again
		mems[2].Forget()
		five := overMem(t, append(mems[:3:3], memnode.New("new0", nil), memnode.New("new1", nil)), WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m))
		_, _ = five.TryAcquire(t.Context(), "x")
		time.Sleep(time.Second)
		if seal, _, ok := mems[2].Get("redlock:seal:lock:"); ok && seal != "" {
			got, _ := parseSeal(seal)
			if got.n == 5 {
				return "a node of three was sealed for five"
			}
		}
		return ""
	})
}

func storySameServer(_ *testing.T, m mutant) string {
	w := newWard([]string{"redis1", "localhost"}, modeStrict, defaultPrefix, time.Second)
	w.mutant = m
	if w.meet(0, "run-1") == nil && w.meet(1, "run-1") == nil {
		return "one server was taken for two"
	}
	return ""
}

func storyEvicting(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		mems := memNodes(1)
		mems[0].SetMaxMemory(1<<20, "allkeys-lru")
		l := overMem(t, mems, withMutant(m))
		if l.Init(t.Context()) == nil {
			sin = "a server that evicts was taken"
		}
	})
	return sin
}

func storyInitTrusts(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) string {
		lease, err := a.Acquire(t.Context(), "x", WithoutRenewal())
		require.NoError(t, err)
		synctest.Wait()
		mems[0].Forget()
		mems[1].Forget()
		c := overMem(t, mems, WithMaxTTL(time.Second), WithTTL(time.Second), withMutant(m))
		_ = c.InitForce(t.Context())
		if _, err := c.TryAcquire(t.Context(), "x"); err == nil && lease.Err() == nil {
			return "a second holder, right after init"
		}
		return ""
	})
}

// storyShortDebts: the old connection cannot be killed, so one answered delete
// proves nothing.
func storyShortDebts(t *testing.T, m mutant) string {
	w := newWard([]string{"node"}, modeStrict, defaultPrefix, time.Second)
	w.mutant = m
	l := newNode(0, "node", 0, w, time.Second).lanes[0]
	l.lost, l.debts, l.runID = []lostConn{{runID: "same"}}, []debt{{key: "lock:x", token: "t"}}, "same"
	now := moment{instant: at(time.Second, time.Second, time.Second)}
	l.begin()
	l.payDebts(now)
	l.send(now)
	l.replies[0] = seam.Reply{Code: seam.Gone}
	l.settle(now)
	if len(l.debts) == 0 {
		return "the delete was not repeated while the old connection may still write"
	}
	return ""
}

// storyValidity lets a lease without renewal run out, on nodes with the given
// clock rate and delay, and tries to take its name while it is believed alive.
func storyValidity(t *testing.T, m mutant, rate float64, delay time.Duration) string {
	const ttl = 10 * time.Second
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) string {
		for _, n := range mems {
			n.SkewClock(0, rate)
			n.Delay(delay)
		}
		lease, err := a.Acquire(t.Context(), "x", WithoutRenewal())
		require.NoError(t, err)
		for _, n := range mems {
			n.Delay(0)
		}
		for lease.Err() == nil {
			if _, err := b.TryAcquire(t.Context(), "x"); err == nil && lease.Err() == nil {
				return "a second holder, before the first one's Context was done"
			}
			time.Sleep(5 * time.Millisecond)
		}
		return ""
	}, WithMaxTTL(ttl), WithTTL(ttl))
}

func storyFromReply(t *testing.T, m mutant) string {
	return storyValidity(t, m, 1, 200*time.Millisecond)
}

func storyDrift(t *testing.T, m mutant) string {
	return storyValidity(t, m, 1.009, 0) // within the one percent that the drift allows
}

// storyStamp: an extend that waits in a hung node for longer than anybody's
// patience, as the node sees it.
func storyStamp(t *testing.T, m mutant) string {
	w := newWard([]string{"node"}, modeStrict, defaultPrefix, time.Second)
	w.mutant = m
	n := newNode(0, "node", 0, w, 100*time.Millisecond)
	n.learn(&seam.Facts{Time: 1_000_000}, instant{}, instant{})
	now := at(time.Second, time.Second, time.Second)
	if late := n.stamp(now); late == 0 {
		return "an extend that is stuck for an hour still brings its key back"
	} else {
		require.EqualValues(t, 1_000_000+1_000_000+100_000, late)
	}
	return ""
}

// storyKillsStrangers: the server restarted, and our old id is somebody else's.
func storyKillsStrangers(t *testing.T, m mutant) string {
	w := newWard([]string{"node"}, modeStrict, defaultPrefix, time.Second)
	w.mutant = m
	l := newNode(0, "node", 0, w, time.Second).lanes[0]
	l.lost = []lostConn{{id: 7, addr: "127.0.0.1:9", runID: "old"}}
	l.runID = "new"
	l.begin()
	l.payDebts(moment{})
	for _, c := range l.calls {
		if c.Op == seam.Kill {
			return "a stranger's connection was killed"
		}
	}
	return ""
}

// storyLaneHop: a link wide enough for many lanes, and tokens whose release
// must not overtake their acquire.
func storyLaneHop(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		for _, n := range mems {
			n.Delay(2 * time.Millisecond)
		}
		var sin string
		for range 5 {
			done := make(chan struct{})
			for i := range 32 {
				go func() {
					name := "x" + string(rune('A'+i))
					if lease, err := a.TryAcquire(context.Background(), name); err == nil {
						_ = lease.Release(context.Background())
					}
					done <- struct{}{}
				}()
			}
			for range 32 {
				<-done
			}
		}
		synctest.Wait()
		for _, v := range a.voters {
			v.mu.Lock()
			many := len(v.lanes) > 1
			v.mu.Unlock()
			if !many {
				return "the link was not wide enough for this story"
			}
		}
		probe := &call{op: seam.Acquire, t: &tenure{lane: make([]uint8, 3), sent: make([]bool, 3)}}
		v := a.voters[0]
		v.mu.Lock()
		first := v.pick(probe)
		first.running = true // busy from now on
		if v.pick(probe) != first {
			sin = "a release took another lane than its acquire"
		}
		first.running = false
		v.mu.Unlock()
		return sin
	}, WithNodeTimeout(100*time.Millisecond))
}

func storyReleaseOnCtx(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		for _, n := range mems {
			n.Delay(10 * time.Millisecond)
		}
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if lease.Release(ctx) != nil {
			return "a release under a cancelled context failed"
		}
		return ""
	})
}

func storyNoMargin(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, _ []*memnode.Node, a, _ *Locker) string {
		lease, err := a.Acquire(t.Context(), "x", WithoutRenewal())
		require.NoError(t, err)
		<-lease.Context().Done()
		if !time.Now().Before(lease.Until()) {
			return "the Context was not done before Until"
		}
		return ""
	})
}

func storyBreakMark(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) string {
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, b.Break(t.Context(), "x", lease.Token()))
		<-lease.Context().Done()
		if lost, _ := errors.AsType[*LostError](lease.Err()); lost.Reason != LostBroken {
			return "a renewal set the key again, and the holder was not told of the Break"
		}
		return ""
	})
}
