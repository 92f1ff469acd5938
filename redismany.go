package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// many makes the command of a call over several names. Its keys vary in number, so it
// is made anew every time.
func (s *slot) many(c *seam.Call) {
	sc, keys, args := s.manyArgs(c)
	all := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", sc.sha, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(all, args...)
	ctx := context.Background()
	s.sc = sc
	if c.Op == seam.Acquire || c.Op == seam.Extend {
		s.one[0] = redis.NewIntSliceCmd(ctx, all...)
	} else {
		s.one[0] = redis.NewIntCmd(ctx, all...)
	}
	s.cmds = s.one
}

func (s *slot) manyArgs(c *seam.Call) (sc script, keys []string, args []any) {
	names := c.Names()
	n := len(names)
	add := func(of func(n *seam.Names) string) {
		for i := range names {
			keys = append(keys, of(&names[i]))
		}
	}
	label := func(n *seam.Names) string { return n.LabelKey }
	counter := func(n *seam.Names) string { return n.FenceKey }
	add(func(n *seam.Names) string { return n.Key })
	switch c.Op {
	case seam.Acquire:
		life := s.fenceTTL
		if c.FenceKey != "" {
			add(counter)
		} else {
			life = 0
		}
		if c.LabelKey != "" {
			add(label)
		}
		return acquireAllScript, keys, []any{c.Token, s.ttl, n, life, c.Fence, c.Block, c.Label}
	case seam.Extend:
		add(func(n *seam.Names) string { return n.MarkKey })
		if c.LabelKey != "" {
			add(label)
		}
		return extendAllScript, keys, []any{c.Token, s.ttl, c.NotAfter, n, c.Label}
	case seam.Raise:
		add(counter)
		return raiseAllScript, keys, []any{c.Token, c.Fence, c.Limit, s.fenceTTL, n}
	}
	labels := 0
	if c.LabelKey != "" {
		add(label)
		labels = n
	}
	if c.WakeKey != "" {
		add(func(n *seam.Names) string { return n.WakeKey })
		if c.QueueKey != "" {
			add(func(n *seam.Names) string { return n.QueueKey })
			add(func(n *seam.Names) string { return n.EndsKey })
		}
	}
	return releaseAllScript, keys, []any{c.Token, s.keep, n, labels}
}
