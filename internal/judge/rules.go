package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The rules that a Violation names.
const (
	RuleMalformed = "malformed"
	RuleOverlap   = "overlap"
	RuleTrust     = "early trust"
	RuleFence     = "fence order"
	RuleLeftover  = "leftover"
	RuleProgress  = "progress"
	RulePorcupine = "porcupine"
	RuleTimeout   = "porcupine timeout"
)

// Violation is one thing that must not have happened.
type Violation struct {
	Rule string
	Name string // of the lock
	At   time.Duration
	Ops  []Op   // that show it
	Text string // who, when, how long
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s", v.Rule, v.Text) }

// Malformed finds operations that make no sense, of which the other rules could
// make nothing or anything: they are a fault of the recorder or of the client.
func Malformed(h History) []Violation {
	var found []Violation
	bad := func(o *Op, text string) {
		found = append(found, Violation{RuleMalformed, o.Name, o.Start, []Op{*o}, text + ": " + o.String()})
	}
	for i := range h {
		o := &h[i]
		if err := o.check(); err != nil {
			bad(o, err.Error())
		} else if o.promises() && o.Until < o.Start {
			bad(o, "a promise that was over before it was asked for")
		}
	}
	l := read(h)
	for i := range l.again {
		bad(&l.again[i], "a token that had been granted before")
	}
	for k, b := range l.holds {
		if e := l.ends[k]; e != nil && first(closes(e)) < b.got.Start {
			bad(e, fmt.Sprintf("the end of a lease that was asked for only at %v", b.got.Start))
		}
	}
	slices.SortStableFunc(found, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return found
}

// Overlaps finds pairs of tokens of one name whose promised intervals overlap.
//
// An interval begins at the end of the Acquire, when the client may begin to
// work, and ends before the last Until that an Acquire or Extend promised, or
// earlier: at the start of the Release, or when the client saw its lease done.
// So an interval lies within what the client relied on, and an overlap is never
// a matter of when something was written down. An Extend that was under way when
// the Until before it passed bridges the gap: only what still stands is extended.
//
// Every interval that begins within another is reported once, against the one
// that reaches furthest.
func Overlaps(h History) []Violation {
	var found []Violation
	l := read(h)
	for _, name := range h.names() {
		var far *hold // the one so far that ends last
		for _, b := range l.named[name] {
			if b.to <= b.from {
				continue // over before its client knew of it
			}
			if far != nil && b.from < far.to {
				both := min(far.to, b.to) - b.from
				found = append(found, Violation{
					RuleOverlap, name, b.from, append(far.ops(), b.ops()...),
					fmt.Sprintf("two holders of %q for %v: %v; %v", name, both, far, b),
				})
			}
			if far == nil || b.to > far.to {
				far = b
			}
		}
	}
	return found
}

// EarlyTrust finds clients that took a lease for alive that they had to know
// was not: a Check that is OK, or an Extend that is OK, that began after the last
// Until promised, after the Release had begun or the loss was seen; or without
// a grant, as after an Acquire whose outcome is Unknown.
//
// A Check says that the lease was seen alive at some moment between its start
// and its end, so it counts as the start; and a promise counts from the start of
// its operation, because the client knows of it before it writes the end down.
func EarlyTrust(h History) []Violation {
	var found []Violation
	l := read(h)
	for _, o := range Merge(h) {
		if o.Outcome != OK || o.Kind != Check && o.Kind != Extend {
			continue
		}
		k := tokenKey{o.Name, o.Token}
		did := "saw alive"
		if o.Kind == Extend {
			did = "extended"
		}
		add := func(ops []Op, format string, args ...any) {
			found = append(found, Violation{
				RuleTrust, o.Name, o.Start, append(ops, o),
				fmt.Sprintf("%s %s its lease of %q (token %s) at %v, ", o.Client, did, o.Name, o.Token, o.Start) +
					fmt.Sprintf(format, args...),
			})
		}
		b := l.holds[k]
		if b == nil {
			add(nil, "which no Acquire that is OK had granted")
			continue
		}
		if o.End < b.got.Start {
			add([]Op{b.got}, "%v before it was asked for", b.got.Start-o.End)
			continue
		}
		if until, p := b.promised(&o); o.Start > until {
			add([]Op{p}, "%v after the promise had ended at %v", o.Start-until, until)
			continue
		}
		if e := l.ends[k]; e != nil {
			if at, _ := closes(e); o.Start > at {
				add([]Op{*e}, "%v after its own %s at %v", o.Start-at, e.Kind, at)
			}
		}
	}
	return found
}

// promised is the last Until that the client could know of when it did o, and
// the operation that promised it. An Extend must not vouch for itself.
func (b *hold) promised(o *Op) (time.Duration, Op) {
	by := b.got
	for _, p := range b.given {
		if p == *o || p.Start > o.End {
			break // they are in the order of their starts
		}
		if p.Until > by.Until {
			by = p
		}
	}
	return by.Until, by
}

// FenceOrder finds grants of a name whose fence is not greater than one granted
// before, and equal fences of different tokens. Before is what ended before the
// other started; fences of grants that were under way together have no order.
// A fence of 0 is none.
func FenceOrder(h History) []Violation {
	var found []Violation
	l := read(h)
	for _, name := range h.names() {
		fenced := slices.DeleteFunc(slices.Clone(l.named[name]), func(b *hold) bool { return b.got.Fence == 0 })
		ended := slices.Clone(fenced)
		slices.SortStableFunc(fenced, func(a, b *hold) int { return cmp.Compare(a.got.Start, b.got.Start) })
		slices.SortStableFunc(ended, func(a, b *hold) int { return cmp.Compare(a.got.End, b.got.End) })
		var top *hold // the greatest fence of those that ended before
		with := make(map[uint64]*hold)
		for _, b := range fenced {
			for len(ended) > 0 && ended[0].got.End < b.got.Start {
				if top == nil || ended[0].got.Fence > top.got.Fence {
					top = ended[0]
				}
				ended = ended[1:]
			}
			add := func(a *hold, what string) {
				found = append(found, Violation{
					RuleFence, name, b.got.End, []Op{a.got, b.got},
					fmt.Sprintf("%s got %q (token %s) at %v with fence %d, %s %d, which %s had got (token %s) at %v",
						b.got.Client, name, b.key.token, b.got.End, b.got.Fence, what, a.got.Fence,
						a.got.Client, a.key.token, a.got.End),
				})
			}
			if a := with[b.got.Fence]; a != nil {
				add(a, "the same as")
			} else if with[b.got.Fence] = b; top != nil && top.got.Fence > b.got.Fence {
				add(top, "less than")
			}
		}
	}
	return found
}
