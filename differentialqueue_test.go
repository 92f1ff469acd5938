package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// queue gives half of the calls that may have one a queue, with few waiters, of which
// one is deaf, and tickets in another order than the calls.
func (w *twins) queue(c *seam.Call, key string) {
	if c.Op != seam.Leave && w.rnd.IntN(2) == 0 || len(c.Also) > 0 {
		return
	}
	c.Queue = seam.Queue{
		QueueKey: queuePrefix + key, EndsKey: endsPrefix + key, TicketKey: ticketPrefix + key,
		Who: fmt.Sprintf("channel%d.%d label.", w.rnd.IntN(4), w.rnd.IntN(2)), Lease: w.ttl(), TicketTTL: w.ttl(), Places: 5,
	}
	switch w.rnd.IntN(4) {
	case 0:
		c.Who = ""
	case 1:
		c.Ticket = 1<<50 + int64(w.rnd.IntN(1000))
	default:
		c.Ticket = 1 + int64(w.rnd.IntN(5))
	}
	if c.Op == seam.Leave && w.rnd.IntN(3) > 0 {
		c.WakeKey = wakePrefix + key
	}
}

// strayQueue breaks one of the keys of a queue on both.
func (w *twins) strayQueue(key string) {
	ctx := w.t.Context()
	key = []string{queuePrefix, endsPrefix, ticketPrefix}[w.rnd.IntN(3)] + key
	require.NoError(w.t, w.admin.Del(ctx, key).Err())
	w.mem.Delete(key)
	if w.rnd.IntN(2) == 0 {
		require.NoError(w.t, w.admin.RPush(ctx, key, "x").Err())
		w.mem.PutList(key)
	}
}

// queueCalls are calls about one queue, on both.
func (w *twins) queueCalls() (do func(c seam.Call) seam.Reply, try func(token, who string, ticket int64) seam.Call, queue func() []string, value func() string) {
	t := w.t
	do = func(c seam.Call) seam.Reply {
		t.Helper()
		if c.Key == "" {
			c.Key = "k"
		}
		c.QueueKey, c.EndsKey, c.TicketKey = "q", "e", "t"
		c.TTL, c.TicketTTL, c.Places = time.Minute, time.Minute, 3
		if c.Lease == 0 {
			c.Lease = 30 * time.Second
		}
		var replies [2]seam.Reply
		began := time.Now()
		for i, conn := range w.conns {
			r := make([]seam.Reply, 1)
			require.NoError(t, conn.Do([]seam.Call{c}, r))
			replies[i] = r[0]
		}
		require.Empty(t, difference(&replies[0], &replies[1], slack+time.Since(began)), "%+v\n%+v", replies[0], replies[1])
		return replies[0]
	}
	try = func(token, who string, ticket int64) seam.Call {
		return seam.Call{Op: seam.Acquire, Token: token, Queue: seam.Queue{Who: who, Ticket: ticket}}
	}
	value = func() string { return do(seam.Call{Op: seam.Inspect}).Value }
	queue = func() (all []string) {
		for _, q := range do(seam.Call{Op: seam.Inspect}).Queue {
			all = append(all, q.Who)
		}
		return all
	}
	return do, try, queue, value
}

// The rules of a queue, one by one, on both.
func TestDifferentialQueue(t *testing.T) {
	w := newTwins(t, 1)
	do, try, queue, value := w.queueCalls()
	require.Equal(t, seam.OK, do(try("holder", "", 0)).Code, "nobody queues")
	require.Equal(t, seam.Held, do(try("t1", "b.1", 20)).Code)
	require.Equal(t, seam.Held, do(try("t2", "a.1", 20)).Code)
	r := do(try("t3", "c.1", 10))
	require.Equal(t, seam.Held, r.Code)
	require.Equal(t, 3, r.Length)
	require.Greater(t, r.TTL, 50*time.Second, "what is left of the lock")
	require.Equal(t, []string{"c.1", "a.1", "b.1"}, queue(), "by ticket, then by name")
	require.Equal(t, seam.Full, do(try("t4", "d.1", 30)).Code)
	require.Equal(t, seam.Held, do(try("t3", "c.1", 99)).Code)
	require.Equal(t, []string{"c.1", "a.1", "b.1"}, queue(), "who has a place keeps it")

	release := seam.Call{Op: seam.Release, Token: "holder", WakeKey: "w"}
	require.Equal(t, seam.Deleted, do(release).Code)
	require.Equal(t, "reserved:c.1", value())
	require.Equal(t, seam.Held, do(try("t5", "", 0)).Code, "it is kept")
	require.Equal(t, seam.Held, do(try("t2", "a.1", 20)).Code)
	do(seam.Call{Op: seam.Leave, WakeKey: "w", Queue: seam.Queue{Who: "c.1"}})
	require.Equal(t, "reserved:a.1", value(), "it is kept for the next")
	require.Equal(t, seam.OK, do(try("t6", "0.1", 5)).Code, "the first takes what was kept for another")
	do(seam.Call{Op: seam.Leave, Queue: seam.Queue{Who: "0.1"}})
	require.Equal(t, []string{"a.1", "b.1"}, queue())
	require.Equal(t, "t6", value(), "a Leave after the name was won changes nothing else")
	require.Equal(t, seam.Gone, do(seam.Call{Op: seam.Release, Token: "other"}).Code)
	require.Equal(t, "t6", value())
	require.Equal(t, seam.Deleted, do(seam.Call{Op: seam.Release, Token: "t6"}).Code)
	require.Empty(t, value(), "an undo keeps it for nobody")

	// Far ahead of the clock, so that the next ticket is the counter's.
	require.Equal(t, seam.Held, do(try("t7", "far.1", 1<<52)).Code)
	require.EqualValues(t, 1<<52+1, do(try("t8", "", 0)).Ticket)
	do(seam.Call{Op: seam.Leave, Queue: seam.Queue{Who: "far.1"}})

	// The dead are removed all together, and what was kept for them is free.
	soon := try("t9", "dead.1", 1)
	soon.Lease = 200 * time.Millisecond
	require.Equal(t, seam.OK, do(try("blocks", "a.1", 20)).Code)
	do(soon)
	do(seam.Call{Op: seam.Release, Token: "blocks", WakeKey: "w"})
	require.Equal(t, "reserved:dead.1", value())
	require.Eventually(t, func() bool {
		left, err := w.admin.Exists(t.Context(), "k").Result()
		_, _, stands := w.mem.Get("k")
		return err == nil && left == 0 && !stands
	}, 5*time.Second, time.Millisecond, "what is kept for a waiter lives as long as its entry")
	require.Equal(t, seam.OK, do(try("t10", "a.1", 20)).Code)
	require.Equal(t, []string{"a.1", "b.1"}, queue())
	w.state(t.Context())
}
