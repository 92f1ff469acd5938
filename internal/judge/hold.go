package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// tokenKey is a token of a name: one attempt to lock it.
type tokenKey struct{ name, token string }

// hold is a grant and what became of it.
type hold struct {
	key    tokenKey
	got    Op   // the Acquire
	given  []Op // all promises: got, then in the order of their starts
	closer *Op  // its Release, or where it was seen done; nil: it lapsed
	from   time.Duration
	to     time.Duration // from which its client may not work any more
}

// ledger is a history in order.
type ledger struct {
	holds map[tokenKey]*hold
	ends  map[tokenKey]*Op // the earliest Release or Lost, by closes
	named map[string][]*hold
	again []Op // grants of a token that had been granted already
}

// closes is when an operation ends the interval of its token, if it does. A
// client that has begun to release does not work any more, whatever becomes of
// the release; one that saw its context done may have worked until it saw that.
// A Check that Failed is such a sight too.
func closes(o *Op) (time.Duration, bool) {
	switch {
	case o.Kind == Release:
		return o.Start, true
	case o.Kind == Lost, o.Kind == Check && o.Outcome == Failed:
		return o.End, true
	}
	return 0, false
}

// read makes the ledger of a history.
func read(h History) *ledger {
	l := &ledger{holds: make(map[tokenKey]*hold), ends: make(map[tokenKey]*Op), named: make(map[string][]*hold)}
	ops := Merge(h)
	for i := range ops {
		o := &ops[i]
		k := tokenKey{o.Name, o.Token}
		if o.Kind == Acquire && o.Outcome == OK {
			if l.holds[k] != nil {
				l.again = append(l.again, *o)
				continue
			}
			l.holds[k] = &hold{key: k, got: *o, given: []Op{*o}}
			l.named[o.Name] = append(l.named[o.Name], l.holds[k])
		}
		if at, ok := closes(o); ok {
			if e := l.ends[k]; e == nil || at < first(closes(e)) {
				l.ends[k] = o
			}
		}
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == Extend && o.promises() {
			if b := l.holds[tokenKey{o.Name, o.Token}]; b != nil {
				b.given = append(b.given, *o)
			}
		}
	}
	for k, b := range l.holds {
		b.from, b.closer = b.got.End, l.ends[k]
		for i := range b.given {
			b.to = max(b.to, b.given[i].Until)
		}
		if b.closer != nil {
			if at, _ := closes(b.closer); at <= b.to {
				b.to = at
			} else {
				b.closer = nil // it had lapsed before
			}
		}
	}
	for _, holds := range l.named {
		slices.SortStableFunc(holds, func(a, b *hold) int { return cmp.Compare(a.from, b.from) })
	}
	return l
}

func first[A, B any](a A, _ B) A { return a }

// how says what ended the hold.
func (b *hold) how() string {
	switch {
	case b.closer == nil:
		return "its promise ended"
	case b.closer.Kind == Release:
		return "it began to release"
	}
	return "it saw its lease done"
}

func (b *hold) String() string {
	return fmt.Sprintf("%s (token %s) held %q from %v to %v, when %s",
		b.got.Client, b.key.token, b.key.name, b.from, b.to, b.how())
}

// ops are the operations that show the hold.
func (b *hold) ops() []Op {
	ops := slices.Clone(b.given)
	if b.closer != nil {
		ops = append(ops, *b.closer)
	}
	return ops
}
