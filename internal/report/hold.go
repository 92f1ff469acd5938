package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// token is one attempt to lock a name.
type token struct{ name, token string }

// hold is a grant, and the time within which its client relied on it.
type hold struct {
	token
	client   string
	fence    uint64
	from, to time.Duration
	extends  int
	end      string // why it ended
}

// end is what ended a token's interval first.
type end struct {
	at  time.Duration
	why string
}

// holds are the grants of each name, by their beginnings. An interval is the one
// that judge.Overlaps compares, so that what is drawn is what was judged: from the
// end of the Acquire to the earliest of the start of the Release, the sight of the
// loss and the last promise. A token that was granted twice counts once.
func holds(ops []judge.Op) map[string][]*hold {
	ops = judge.Merge(ops)
	held, ends := make(map[token]*hold), make(map[token]end)
	named := make(map[string][]*hold)
	for i := range ops {
		o := &ops[i]
		k := token{o.Name, o.Token}
		if o.Kind == judge.Acquire && o.Outcome == judge.OK && held[k] == nil {
			held[k] = &hold{token: k, client: o.Client, fence: o.Fence, from: o.End, to: max(0, o.Until), end: "its promise ended"}
			named[o.Name] = append(named[o.Name], held[k])
		}
		if e, ok := closes(o); ok {
			if was, again := ends[k]; !again || e.at < was.at {
				ends[k] = e
			}
		}
	}
	for i := range ops { // apart, because an Extend may be found before its Acquire
		if o := &ops[i]; o.Kind == judge.Extend && o.Outcome == judge.OK {
			if h := held[token{o.Name, o.Token}]; h != nil {
				h.to = max(h.to, o.Until)
				h.extends++
			}
		}
	}
	for k, h := range held {
		if e, ok := ends[k]; ok && e.at <= h.to {
			h.to, h.end = e.at, e.why
		}
	}
	for _, hs := range named {
		slices.SortStableFunc(hs, func(a, b *hold) int { return cmp.Compare(a.from, b.from) })
	}
	return named
}

// closes says whether an operation ends its token's interval, and when.
func closes(o *judge.Op) (end, bool) {
	switch {
	case o.Kind == judge.Release:
		return end{o.Start, "it began to release"}, true
	case o.Kind == judge.Lost, o.Kind == judge.Check && o.Outcome == judge.Failed:
		return end{o.End, "it saw its lease done"}, true
	}
	return end{}, false
}

// tip is what is to be known of a hold.
func (h *hold) tip() string {
	s := fmt.Sprintf("%s held %s from %s to %s (%s), when %s", clean(h.client, 60), clean(h.name, 60),
		exact(h.from), exact(h.to), short(h.to-h.from), h.end)
	if h.extends > 0 {
		s += ", extended " + count(h.extends, "time", "times")
	}
	if h.fence != 0 {
		s += fmt.Sprintf(", fence %d", h.fence)
	}
	return s + ", token " + clean(h.token.token, 40)
}

// thin keeps about so many holds: those that must stay, and of the others the
// longest that begins in each of equal slices of the time. So the picture stays
// true to what a reader sees of it: busy and idle stretches, and long holds.
func thin(hs []*hold, keep int, a axis, must func(*hold) bool) []*hold {
	if len(hs) <= keep {
		return hs
	}
	best := make([]*hold, max(keep, 1))
	for _, h := range hs {
		if must(h) {
			continue
		}
		i := min(int(a.part(h.from)*float64(len(best))), len(best)-1)
		if b := best[i]; b == nil || h.to-h.from > b.to-b.from {
			best[i] = h
		}
	}
	left := make(map[*hold]bool, len(best))
	for _, h := range best {
		left[h] = true
	}
	return slices.DeleteFunc(slices.Clone(hs), func(h *hold) bool { return !left[h] && !must(h) })
}
