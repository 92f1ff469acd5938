package redlock

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// fence gives half of the acquires, and every Raise, a counter. What is proposed is
// behind TIME, ahead of it within what is taken, or too far ahead; or far beyond
// all clocks, so that the counter goes on by blocks, which are equal on both.
func (w *twins) fence(c *seam.Call, key string) {
	if c.Op == seam.Acquire && w.rnd.IntN(2) == 0 {
		return
	}
	now := time.Now().UnixMicro()
	c.FenceKey, c.Block, c.FenceTTL = fencePrefix+key, int64(1+w.rnd.IntN(9)), w.ttl()
	c.Limit = time.Minute.Microseconds()
	switch w.rnd.IntN(5) {
	case 0:
	case 1:
		c.Fence = now - 1000
	case 2:
		c.Fence = now + 500_000
	case 3:
		c.Fence = now + 10_000_000
	case 4:
		c.Fence, c.Limit = now+1_000_000_000, 2_000_000_000
	}
	if c.Op == seam.Raise && c.Fence < now+10_000_000 {
		c.Fence = now - 600_000_000 // not so near a counter that two clocks disagree about it
	}
}

// sameCounter says whether two counters took the time of two clocks that were asked
// one after the other.
func sameCounter(a, b string, slack time.Duration) bool {
	x, err1 := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	return err1 == nil && err2 == nil && micros(x-y).Abs() <= slack
}

// The counter's own rules, one by one, on both.
func TestDifferentialFence(t *testing.T) {
	w := newTwins(t, 1)
	now := time.Now().UnixMicro()
	try := func(put string, c seam.Call) (real7, mem seam.Reply) {
		t.Helper()
		ctx := t.Context()
		require.NoError(t, w.admin.FlushAll(ctx).Err())
		w.mem.Flush()
		if put != "" {
			require.NoError(t, w.admin.Set(ctx, "f", put, 0).Err())
			w.mem.Put("f", put, 0)
		}
		c.Key, c.Token, c.FenceKey, c.FenceTTL, c.TTL = "k", "t", "f", time.Hour, time.Minute
		if c.Block == 0 {
			c.Block = 9
		}
		calls := []seam.Call{c}
		if c.Op == seam.Raise {
			calls = []seam.Call{{Op: seam.Acquire, Key: "k", Token: "t", TTL: time.Minute}, c}
		}
		var replies [2][]seam.Reply
		for i, conn := range w.conns {
			replies[i] = make([]seam.Reply, len(calls))
			require.NoError(t, conn.Do(calls, replies[i]))
		}
		last := len(calls) - 1
		require.Empty(t, difference(&replies[0][last], &replies[1][last], slack))
		w.state(ctx)
		return replies[0][last], replies[1][last]
	}
	both := func(put string, c seam.Call, code seam.Code, fence int64) {
		t.Helper()
		for _, r := range func() []seam.Reply { a, b := try(put, c); return []seam.Reply{a, b} }() {
			require.Equal(t, code, r.Code, "%v", r.Err)
			require.Equal(t, fence, r.Fence)
		}
	}
	const far, most = 1 << 52, 1<<53 - 1<<40
	acquire := seam.Call{Op: seam.Acquire}
	both(fmt.Sprint(far), acquire, seam.OK, far+9)
	both(fmt.Sprint(most), acquire, seam.OK, most+9)
	both(fmt.Sprint(most+1), acquire, seam.Error, 0)
	both("garbage", acquire, seam.Error, 0)
	acquire.Fence = now + 900_000
	both("", acquire, seam.OK, now+900_000)
	both(fmt.Sprint(now+900_000), acquire, seam.OK, now+900_009)
	acquire.Fence = now + 100_000_000
	if r, _ := try("", acquire); r.Fence >= acquire.Fence || r.Fence < now {
		t.Fatalf("a proposal far ahead was taken: %d at %d", r.Fence, now)
	}
	raise := seam.Call{Op: seam.Raise, Fence: now + 100_000_000, Limit: 50_000_000}
	both("", raise, seam.Ahead, 0)
	both(fmt.Sprint(raise.Fence), raise, seam.Mine, 0)
	raise.Limit = 200_000_000
	both("", raise, seam.Mine, 0)
	both("garbage", raise, seam.Mine, 0)
	raise.Fence = far
	both("", raise, seam.Ahead, 0)
	raise.Fence, raise.Limit = far, far
	both("7", raise, seam.Mine, 0)
}
