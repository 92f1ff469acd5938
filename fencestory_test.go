package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// ahead puts the counters of some nodes ahead of their clocks.
func ahead(mems ...*memnode.Node) {
	for _, n := range mems {
		n.Put("redlock:f:lock:x", fmt.Sprint(time.Now().Add(300*time.Millisecond).UnixMicro()), time.Hour)
	}
}

// storyLoneWriteBack: the write-back reaches only the node that had the number.
func storyLoneWriteBack(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, _, b *Locker) string {
		ahead(mems[0])
		mems[2].Delay(20 * time.Millisecond) // the others answer first
		for _, n := range mems[1:] {
			n.Refuse(seam.Raise, errors.New("OOM command not allowed"))
		}
		var first Fence
		if lease, err := b.TryAcquire(t.Context(), "x"); err == nil {
			first = lease.Fence()
			require.NoError(t, lease.Release(t.Context()))
		}
		mems[0].Kill()
		time.Sleep(50 * time.Millisecond)
		second := grant(t, b)
		if second < first {
			return "a grant on the other two nodes had a lower fence"
		}
		return ""
	}, WithFencing())
}

// storyAnyFence: the next grant meets a node that had no part in the one before.
func storyAnyFence(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, _, b *Locker) string {
		ahead(mems[1:]...)
		mems[0].Refuse(seam.Acquire, errors.New("OOM command not allowed"))
		first := grant(t, b)
		synctest.Wait()
		mems[0].Refuse(seam.Acquire, nil)
		mems[2].Delay(20 * time.Millisecond) // the others answer first
		if second := grant(t, b); second < first {
			return "a grant had the fence of a node that had not heard of the one before"
		}
		return ""
	}, WithFencing())
}

// storyBlockStart: the counters are ahead of the clocks, as after a clock that was
// fast, so that what is stored is all that keeps two grants apart.
func storyBlockStart(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, b *Locker) string {
		for _, n := range mems {
			n.Put("redlock:f:lock:x", fmt.Sprint(time.Now().Add(time.Hour).UnixMicro()), time.Hour)
		}
		first, err := a.Acquire(t.Context(), "x")
		require.NoError(t, err)
		heir := make(chan *Lease)
		go func() {
			lease, _ := a.Acquire(t.Context(), "x")
			heir <- lease
		}()
		synctest.Wait()
		require.NoError(t, first.Release(t.Context()))
		second := <-heir
		require.Equal(t, first.Token(), second.Token(), "handed over")
		require.NoError(t, second.Release(t.Context()))
		third, err := b.Acquire(t.Context(), "x")
		require.NoError(t, err)
		if third.Fence() <= second.Fence() {
			return "a grant had no higher fence than a hand-over before it"
		}
		return ""
	}, WithFencing())
}

// storyNoSpread: one clock of three is a year fast.
func storyNoSpread(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, _, b *Locker) string {
		mems[1].StepClock(365 * 24 * time.Hour)
		mems[0].Delay(20 * time.Millisecond) // the first two answers disagree
		for range 20 {
			lease, err := b.Acquire(t.Context(), "x", WithWait(2*time.Second))
			if err != nil {
				return "one clock that is a year fast kept the name from everybody: " + err.Error()
			}
			if lease.Fence() > Fence(time.Now().Add(time.Hour).UnixMicro()) {
				return "a fence came from a clock that is a year fast"
			}
			require.NoError(t, lease.Release(t.Context()))
		}
		return ""
	}, WithFencing())
}

// storyFarWriteBack: two clocks of three are a year fast, so that they are the
// majority; the third node's counter must not follow them.
func storyFarWriteBack(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, _, b *Locker) string {
		for i, n := range mems[:2] {
			n.StepClock(365*24*time.Hour + time.Duration(i)*time.Millisecond)
		}
		mems[2].Delay(20 * time.Millisecond) // its vote is open when the write-back goes out
		for range 3 {
			lease, err := b.Acquire(t.Context(), "x")
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond) // what was queued for it goes out while the lease stands
			require.NoError(t, lease.Release(t.Context()))
			text, _, _ := mems[2].Get("redlock:f:lock:x")
			var counter int64
			if _, err := fmt.Sscan(text, &counter); err == nil && counter > time.Now().Add(time.Hour).UnixMicro() {
				return "a counter was lifted a year beyond its node's clock"
			}
		}
		return ""
	}, WithFencing())
}
