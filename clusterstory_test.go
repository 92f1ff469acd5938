package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// The stories of a Cluster's guards, in virtual time.

// clusterQ is the quarantine of a Cluster's bucket with WithMaxTTL(1 s).
const clusterQ = 15010 * time.Millisecond

// storyBucketSeal is hazard H11: the master of a bucket is replaced by a copy
// that lacks a lock.
func storyBucketSeal(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(2, 1)
		a, b := overFake(t, f.votes(1), withMutant(m)), overFake(t, f.votes(1), withMutant(m))
		require.NoError(t, a.Init(t.Context()))
		require.NoError(t, b.Do(t.Context(), "warm", func(context.Context) error { return nil }))
		copied := f.mems[0].Snapshot()
		lease, err := a.Acquire(t.Context(), "x", WithoutRenewal())
		require.NoError(t, err)
		f.mems[1].Restore(copied)
		f.give(f.those(0), 1, 9)
		for lease.Err() == nil { // the first tries find out that the master was replaced
			if other, err := b.TryAcquire(t.Context(), "x"); err == nil {
				if lease.Err() == nil {
					sin = "a copy that lacked the lock gave it to another"
				}
				require.NoError(t, other.Release(t.Context()))
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return sin
}

// deposed is hazard H12: A's lease stands on the new master of the bucket, and
// the old one, which was paused, has not heard of it.
func deposed(t *testing.T, m mutant, warm bool) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(4, 3)
		a, b := overFake(t, f.votes(1, 1, 2)), overFake(t, f.votes(1, 0, 1, 2), withMutant(m))
		require.NoError(t, a.Init(t.Context()))
		name := nameInBucket(t, 3) // of master 0
		if warm {
			require.NoError(t, b.Do(t.Context(), name, func(context.Context) error { return nil }))
		}
		f.give(f.those(0), 3, 9, 1, 2, 3) // in the eyes of all others
		for i := 1; i < 4; i++ {
			f.slow[i] = 2 * time.Millisecond
		}
		time.Sleep(time.Minute) // nobody has asked the old one since
		lease, err := a.Acquire(t.Context(), name)
		require.NoError(t, err, "when the quarantine of the new one is over")
		if other, err := b.TryAcquire(t.Context(), name); err == nil && lease.Err() == nil {
			_ = other.Release(t.Context())
			sin = "an old master gave away what its successor had given"
		}
	})
	return sin
}

func storyFirstView(t *testing.T, m mutant) string { return deposed(t, m, false) }
func storyOldMaster(t *testing.T, m mutant) string { return deposed(t, m, true) }

// nameInBucket is a name that falls into a bucket, with one vote.
func nameInBucket(t *testing.T, k int) string {
	t.Helper()
	for c := 'a'; c < 'a'+10_000; c++ {
		if bucketFor(defaultPrefix+string(c), 0, 1) == k {
			return string(c)
		}
	}
	t.Fatal("no name")
	return ""
}

// storyTwin is hazard H19: slots were moved, so that two of three votes lie on
// one master, and the third is down.
func storyTwin(t *testing.T, m mutant) (sin string) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(3, 3)
		a := overFake(t, f.votes(3), withMutant(m))
		f.give(f.those(1), 0, 9)
		f.give([]int{63}, 1, 10) // it keeps one, so that there are three masters yet
		require.NoError(t, a.Init(t.Context()))
		f.mems[2].Kill()
		lease, err := a.TryAcquire(t.Context(), "x")
		if err == nil {
			require.NoError(t, lease.Release(t.Context()))
			sin = "one master was a majority"
			return
		}
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "same master")
	})
	return sin
}

func TestClusterMovedSlotIsNoVoteUntilItsOwnerIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(4, 3)
		a := overFake(t, f.votes(3))
		require.NoError(t, a.Init(t.Context()))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		k := bucketFor("lock:x", 1, 3)
		f.give([]int{k}, 3, 9)
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Err(), "two votes carry it")
		v, _, ok := f.mems[3].Get(bucketTags()[k] + "lock:x")
		require.True(t, ok, "set again where the slot is now")
		require.Equal(t, lease.Token(), v)
		b := a.voters[1].of("lock:x")
		require.True(t, b.quarantined())
		time.Sleep(clusterQ)
		require.False(t, b.quarantined())
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestClusterRefusalsAreNoVotes(t *testing.T) {
	for words, drops := range map[string]bool{
		"MOVED 1 10.0.0.2:6379": true, "CLUSTERDOWN Hash slot not served": true, "LOADING Redis is loading": true,
		"READONLY You can't write": true, "ASK 1 10.0.0.2:6379": false, "TRYAGAIN Multiple keys request": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster(3, 3)
			a := overFake(t, f.votes(1))
			require.NoError(t, a.Init(t.Context()))
			k := bucketFor("lock:x", 0, 1)
			require.NoError(t, a.Do(t.Context(), "x", func(context.Context) error { return nil }))
			asks := f.asked(0)
			f.refuse(k, words)
			_, err := a.TryAcquire(t.Context(), "x")
			require.ErrorIs(t, err, ErrNoQuorum, words)
			require.ErrorContains(t, err, words[:5])
			require.NotErrorIs(t, err, ErrConfig, words)
			time.Sleep(200 * time.Millisecond)
			require.Equal(t, drops, f.asked(0) > asks, "%s: the owner is looked up again", words)
			f.refuse(k, "")
			time.Sleep(time.Second)
			require.NoError(t, a.Do(t.Context(), "x", func(context.Context) error { return nil }))
		})
	}
}

// All buckets of a master that was replaced begin their quarantine together,
// whoever notices.
func TestClusterQuarantinesStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(4, 3)
		a := overFake(t, f.votes(3))
		require.NoError(t, a.Init(t.Context()))
		lost := f.those(0)
		copied := f.mems[0].Snapshot()
		f.mems[0].Kill()
		f.mems[3].Restore(copied)
		f.give(lost, 3, 9)
		require.NoError(t, a.Do(t.Context(), "x", func(context.Context) error { return nil }), "two votes go on")
		time.Sleep(time.Second)
		for _, k := range lost {
			_, left, ok := f.mems[3].Get(bucketTags()[k] + a.ward.quarantineKey)
			require.True(t, ok, "bucket %d", k)
			require.InDelta(t, clusterQ-time.Second, left, float64(600*time.Millisecond))
		}
	})
}

func TestClusterWithoutInitWaitsForTheQuarantineOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(3, 3)
		a := overFake(t, f.votes(3))
		_, err := a.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrNoQuorum)
		start := time.Now()
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		require.InDelta(t, clusterQ, time.Since(start), float64(2*time.Second))
		require.NoError(t, lease.Release(t.Context()))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			start = time.Now()
			require.NoError(t, a.Do(t.Context(), name, func(context.Context) error { return nil }))
			require.Less(t, time.Since(start), time.Second, "all buckets were sealed together")
		}
	})
}

// Another number of votes puts names into other buckets, and meets a foreign
// seal in whichever it asks.
func TestClusterVotesArePartOfTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(5, 5)
		three, five := overFake(t, f.votes(3)), overFake(t, f.votes(5))
		require.NoError(t, three.Init(t.Context()))
		lease, err := three.Acquire(t.Context(), "x")
		require.NoError(t, err)
		_, err = five.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "3 votes of one Cluster")
		require.ErrorIs(t, five.Init(t.Context()), ErrConfig)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, five.Reseal(t.Context()))
		_, err = three.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, ErrConfig)
		require.NoError(t, five.Do(t.Context(), "x", func(context.Context) error { return nil }), "after the quarantine")
	})
}

func TestClusterMoreVotesThanMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(4, 3)
		a := overFake(t, f.votes(5))
		for range 2 {
			_, err := a.TryAcquire(t.Context(), "x")
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, "more than the Cluster has masters (3)")
		}
		require.ErrorIs(t, a.Init(t.Context()), ErrConfig)
		for _, r := range a.Check(t.Context()) {
			require.False(t, r.OK)
			require.Contains(t, r.Findings[0].What, "more than the Cluster has masters")
		}
	})
}

// One vote each on three Clusters, or on two and a master, is a quorum too.
func TestClusterVotesMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := newFakeCluster(3, 3), newFakeCluster(3, 3)
		for i := range y.mems {
			y.mems[i] = memnode.New(fmt.Sprint("other", i), nil)
		}
		master := memnode.New("master", nil)
		nodes := append(x.votes(1, 0), y.votes(1, 1)...) // by another address, else they are one Cluster listed twice
		nodes = append(nodes, NodeOver(master.Dialer()))
		a := overFake(t, nodes)
		require.NoError(t, a.Init(t.Context()))
		lease, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		_, _, ok := master.Get("lock:x")
		require.True(t, ok)
		for i := range x.mems {
			x.mems[i].Kill()
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err(), "a whole Cluster is one vote")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The same Cluster under two lists of addresses is found by its servers.
func TestClusterListedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(3, 3)
		_, err := New(append(f.votes(1), f.votes(1)...))
		require.ErrorIs(t, err, ErrConfig)
		nodes := append(f.votes(1, 0), f.votes(1, 1)...)
		a := overFake(t, append(nodes, f.votes(1, 2)...))
		err = a.Init(t.Context())
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "is the same server as")
	})
}

// A server that hangs is asked by few at a time, and keeps nobody else waiting.
func TestClusterHungMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(3, 3)
		a := overFake(t, f.votes(3), WithNodeTimeout(50*time.Millisecond))
		require.NoError(t, a.Init(t.Context()))
		lease, err := a.Acquire(t.Context(), "standing")
		require.NoError(t, err)
		f.mems[1].Hang()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			start := time.Now()
			require.NoError(t, a.Do(t.Context(), name, func(context.Context) error { return nil }))
			require.Less(t, time.Since(start), 300*time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		f.mems[1].Resume()
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		for _, m := range f.mems {
			for _, key := range m.Keys() {
				require.Contains(t, key, "redlock:seal:", "nothing else is left")
			}
		}
	})
}

func TestClusterNodeIsNoDialer(t *testing.T) {
	v := newFakeCluster(1, 1).votes(1)[0].dialer.(*clusterVote)
	_, err := v.Dial(time.Second)
	require.ErrorIs(t, err, ErrConfig)
	require.Equal(t, 0, v.DB())
	var _ seam.Lagging = v
}
