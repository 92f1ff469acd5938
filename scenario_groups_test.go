package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// duos are Sentinel groups of a master and a replica, in memory.
type duos []*duo

type duo struct {
	*fakeGroup
	master int
	epoch  int64
}

func newDuos(n int) duos {
	var all duos
	for i := range n {
		p := &duo{fakeGroup: newFakeGroup([]*memnode.Node{
			memnode.New(fmt.Sprintf("group%d-a", i), nil), memnode.New(fmt.Sprintf("group%d-b", i), nil),
		}), epoch: 1}
		p.names(0, p.epoch)
		p.mems[1].Demote()
		all = append(all, p)
	}
	return all
}

// client makes a Locker over all of them, as another process would.
func (all duos) client(t *testing.T, opts ...Option) *Locker {
	t.Helper()
	var nodes []Node
	for i, p := range all {
		name := fmt.Sprint("group", i)
		g := &group{name: name, addrs: []string{fakeAddr(0), fakeAddr(1), fakeAddr(2)}, wire: p}
		nodes = append(nodes, Node{dialer: g, where: name})
	}
	return overRealGroup(t, nodes, opts...)
}

// copied is what the replica has, if it is in sync now.
func (p *duo) copied() memnode.Snapshot { return p.mems[p.master].Snapshot() }

// failover promotes the replica with the data that it has. The old master stays
// up as a replica, and cuts no connection: SENTINEL FAILOVER.
func (p *duo) failover(data memnode.Snapshot) {
	old := p.mems[p.master]
	p.master = 1 - p.master
	heir := p.mems[p.master]
	heir.Restore(data)
	heir.Promote()
	old.Demote()
	p.epoch++
	p.names(p.master, p.epoch)
}

// turns are two clients that take a name in turn, for 200 ms each.
type turns struct {
	inside atomic.Int32
	grants [2]atomic.Int32
	wg     sync.WaitGroup
}

func (all duos) takeTurns(ctx context.Context, t *testing.T) *turns {
	t.Helper()
	s := &turns{}
	for i := range s.grants {
		l := all.client(t)
		s.wg.Go(func() {
			for ctx.Err() == nil {
				_ = l.Do(ctx, "x", func(held context.Context) error {
					s.grants[i].Add(1)
					if s.inside.Add(1) > 1 {
						t.Error("two hold the name")
					}
					select {
					case <-held.Done():
					case <-time.After(200 * time.Millisecond):
					}
					s.inside.Add(-1)
					return nil
				})
			}
		})
	}
	return s
}

// progress is whether both get the name within d.
func (s *turns) progress(d time.Duration) bool {
	before := [2]int32{s.grants[0].Load(), s.grants[1].Load()}
	time.Sleep(d)
	return s.grants[0].Load() > before[0] && s.grants[1].Load() > before[1]
}

// After a failover both clients go on, not only the one that held the name.
func TestNODE04_EverybodyGoesOnAfterAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newDuos(3)
		require.NoError(t, all.client(t).Init(t.Context()))
		quarantine := all.client(t).voters[0].n.quarantine()
		ctx, cancel := context.WithCancel(t.Context())
		s := all.takeTurns(ctx, t)
		require.True(t, s.progress(5*time.Second))
		for range 2 {
			for i, p := range all {
				p.failover(p.copied())
				require.True(t, s.progress(5*time.Second), "group %d", i)
				time.Sleep(quarantine)
			}
		}
		// Two groups at once leave nothing to lock until one of them has a vote again.
		all[0].failover(all[0].copied())
		all[1].failover(all[1].copied())
		time.Sleep(time.Second)
		require.False(t, s.progress(quarantine-2*time.Second))
		time.Sleep(2 * time.Second)
		require.True(t, s.progress(5*time.Second))
		cancel()
		s.wg.Wait()
	})
}

// A failover to a replica that lacks the lock makes no second holder: of three
// groups two still have it. One alone abstains, and its holder is told.
func TestNODE05_AReplicaThatLacksTheLock(t *testing.T) {
	for _, n := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			all := newDuos(n)
			a, b := all.client(t), all.client(t)
			require.NoError(t, a.Init(t.Context()))
			stale := all[0].copied()
			lease, err := a.Acquire(t.Context(), "x")
			require.NoError(t, err)
			all[0].failover(stale)
			began := time.Now()
			quarantine := a.voters[0].n.quarantine()
			for time.Since(began) < quarantine-time.Second {
				_, err = b.TryAcquire(t.Context(), "x")
				if n == 1 {
					require.ErrorIs(t, err, ErrQuarantined)
				} else {
					require.ErrorIs(t, err, ErrHeld)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if n == 1 {
				lost, ok := errors.AsType[*LostError](lease.Err())
				require.True(t, ok)
				require.Equal(t, LostTaken, lost.Reason)
				require.Less(t, lost.Until.Sub(began), 10*time.Second)
				next, err := b.Acquire(t.Context(), "x")
				require.NoError(t, err)
				require.NoError(t, next.Release(t.Context()))
				return
			}
			time.Sleep(time.Minute)
			_, err = b.TryAcquire(t.Context(), "x")
			require.ErrorIs(t, err, ErrHeld)
			require.NoError(t, lease.Err(), "the holder keeps it")
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A switch of masters without any connection lost costs a holder nothing.
func TestSYS02_ASwitchWithoutALostConnection(t *testing.T) {
	for _, n := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			all := newDuos(n)
			var missed atomic.Int32
			l := all.client(t, WithHooks(Hooks{Renewed: func(e RenewEvent) {
				if e.Err != nil {
					missed.Add(1)
				}
			}}))
			require.NoError(t, l.Init(t.Context()))
			lease, err := l.Acquire(t.Context(), "x")
			require.NoError(t, err)
			for _, p := range all {
				time.Sleep(30 * time.Second)
				missed.Store(0)
				p.failover(p.copied())
				time.Sleep(30 * time.Second)
				require.NoError(t, lease.Err())
				require.LessOrEqual(t, missed.Load(), int32(1), "of %d groups", n)
				token, _, _ := p.mems[p.master].Get("lock:x")
				require.Equal(t, lease.Token(), token)
			}
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// The same of real servers, where the sentinels decide.
func TestSYS02_SentinelFailover(t *testing.T) {
	g := startGroup(t)
	nodes := []Node{groupNode(g)}
	for _, s := range startServers(t, 2, redisproc.Options{}) {
		nodes = append(nodes, Master(&redis.Options{Addr: s.Addr()}))
	}
	var missed atomic.Int32
	l := overRealGroup(t, nodes, WithTTL(3*time.Second), WithHooks(Hooks{Renewed: func(e RenewEvent) {
		if e.Err != nil {
			missed.Add(1)
		}
	}}))
	require.NoError(t, l.Init(t.Context()))
	lease, err := l.Acquire(t.Context(), "x")
	require.NoError(t, err)
	old := g.Master
	require.NoError(t, g.Failover(t.Context(), 0))
	require.NoError(t, g.Settled(t.Context()))
	require.NotEqual(t, old, g.Master)
	admin := redis.NewClient(&redis.Options{Addr: g.Master.Addr()})
	defer admin.Close()
	require.Eventually(t, func() bool {
		ttl := admin.PTTL(context.Background(), "lock:x").Val()
		return admin.Get(context.Background(), "lock:x").Val() == lease.Token() && ttl > 2*time.Second
	}, 10*time.Second, 10*time.Millisecond, "the new master is asked to renew it")
	require.NoError(t, lease.Err())
	require.LessOrEqual(t, missed.Load(), int32(1))
	require.NoError(t, lease.Release(t.Context()))
}
