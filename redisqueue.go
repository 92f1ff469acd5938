package redlock

import (
	"context"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is the scripts of a queue as commands. They are made anew for every call:
// whoever queues waits anyway.

// queue makes the command of a call that is about a queue.
func (s *slot) queue(c *seam.Call) {
	ctx := context.Background()
	switch c.Op {
	case seam.Acquire:
		s.sc = fairScript
		s.one[0] = redis.NewIntSliceCmd(ctx, fairArgs(c)...)
	case seam.Inspect:
		s.sc = inspectScript
		s.one[0] = redis.NewSliceCmd(ctx, "evalsha", s.sc.sha, 4, c.Key, c.LabelKey, c.QueueKey, c.EndsKey)
	default:
		s.sc = leaveScript
		s.one[0] = redis.NewIntCmd(ctx, leaveArgs(c)...)
	}
	s.cmds = s.one
}

func fairArgs(c *seam.Call) []any {
	keys := []any{c.Key, c.QueueKey, c.EndsKey, c.TicketKey}
	life := int64(0)
	if c.FenceKey != "" {
		keys, life = append(keys, c.FenceKey), c.FenceTTL.Milliseconds()
	}
	if c.LabelKey != "" {
		keys = append(keys, c.LabelKey)
	}
	args := append([]any{"evalsha", fairScript.sha, len(keys)}, keys...)
	return append(args, c.Token, c.TTL.Milliseconds(), c.Who, c.Ticket, c.Lease.Milliseconds(), c.TicketTTL.Milliseconds(),
		c.Places, life, c.Fence, c.Block, c.Label)
}

func leaveArgs(c *seam.Call) []any {
	if c.WakeKey == "" {
		return []any{"evalsha", leaveScript.sha, 2, c.QueueKey, c.EndsKey, c.Who}
	}
	return []any{"evalsha", leaveScript.sha, 4, c.QueueKey, c.EndsKey, c.Key, c.WakeKey, c.Who}
}

// readFair reads an Acquire with a queue. A shape that is not expected leaves what
// stands in r.
func readFair(v []int64, r *seam.Reply) {
	if len(v) != 6 || v[0] < 0 || v[0] > 2 || v[5] < 0 || v[5] >= 1<<53 || v[4] < 0 || v[4] > math.MaxInt32 {
		return
	}
	*r = seam.Reply{
		Code: [...]seam.Code{seam.Held, seam.OK, seam.Full}[v[0]],
		Time: v[1], Ticket: v[2], TTL: pttlOf(v[3]), Length: int(v[4]), Fence: v[5],
	}
}

// readQueue reads who queues: pairs of a waiter and its ticket.
func readQueue(v any) []seam.Waiter {
	pairs, _ := v.([]any)
	var queue []seam.Waiter
	for i := 0; i+1 < len(pairs); i += 2 {
		who, _ := pairs[i].(string)
		text, _ := pairs[i+1].(string)
		if ticket, err := strconv.ParseInt(text, 10, 64); err == nil && who != "" {
			queue = append(queue, seam.Waiter{Who: who, Ticket: ticket})
		}
	}
	return queue
}
