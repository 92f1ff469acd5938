package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Leftover is a key that was found on a node after a run.
type Leftover struct {
	Node, Key, Token string
	TTL              time.Duration // that the key had left; 0 or less: it would stay for ever
	At               time.Duration // when it was seen, on the history's clock
}

// Leftovers finds keys that no lock should have left: without a TTL, or seen
// more than 2 ttl after the last operation of their token ended. ttl is the
// longest that any client asks for. For a token that is in no history, as that
// of a killed client, the last operation of all counts.
func Leftovers(h History, keys []Leftover, ttl time.Duration) []Violation {
	var found []Violation
	last, end := make(map[string]*Op), time.Duration(0)
	for i := range h {
		o := &h[i]
		end = max(end, o.End)
		token := onNodes(o.Token)
		if token != "" && (last[token] == nil || o.End > last[token].End) {
			last[token] = o
		}
	}
	for _, k := range keys {
		v := Violation{Rule: RuleLeftover, Name: k.Key, At: k.At}
		from, who := end, "nobody whose history is here"
		if o := last[k.Token]; o != nil {
			from, who, v.Name, v.Ops = o.End, o.Client, o.Name, []Op{*o}
		}
		v.Text = fmt.Sprintf("%s still had %q (token %s, of %s) at %v, ", k.Node, k.Key, k.Token, who, k.At)
		switch {
		case k.TTL <= 0:
			v.Text += "without a TTL"
		case k.At > from+2*ttl:
			v.Text += fmt.Sprintf("%v after the last operation, more than twice the TTL of %v", k.At-from, ttl)
		default:
			continue
		}
		found = append(found, v)
	}
	return found
}

// Window is a time without faults.
type Window struct{ From, To time.Duration }

// Bound is how long a name may take to be granted when nothing is wrong.
type Bound struct {
	All   time.Duration // TTL + quarantine + Slack
	Slack time.Duration // the part of it that clients have to try again in
}

// Progress finds names that clients tried to get in a quiet window and that
// nobody got within the bound.
//
// The bound runs from the start of the window; if somebody held the name then,
// whose lease may be prolonged as often as they like, from the end of that hold.
// Some Acquire must be OK by then, whenever it began. Three things are no
// standstill: nobody tried in the last Slack of the bound, because before that
// the name could still be taken; the window is over before the bound, because
// then there was a fault again; an Acquire whose outcome is Unknown, because it
// may have got the name.
func Progress(h History, w Window, bound Bound) []Violation {
	var found []Violation
	l := read(h)
	tries := make(map[string][]Op)
	for i := range h {
		if h[i].Kind == Acquire {
			tries[h[i].Name] = append(tries[h[i].Name], h[i])
		}
	}
	for _, name := range h.names() {
		since := w.From
		for _, b := range l.named[name] { // in the order of their beginnings
			if b.from <= since && b.to > since {
				since = b.to
			}
		}
		limit := since + bound.All
		if limit > w.To {
			continue
		}
		got := false
		var late []Op
		for _, o := range tries[name] {
			if o.Start > limit || o.End < w.From {
				continue
			}
			got = got || o.Outcome == OK && o.End <= limit || o.Outcome == Unknown
			if o.End >= limit-bound.Slack {
				late = append(late, o)
			}
		}
		if got || len(late) == 0 {
			continue
		}
		slices.SortStableFunc(late, func(a, b Op) int { return cmp.Compare(a.Start, b.Start) })
		found = append(found, Violation{
			RuleProgress, name, limit, late[:min(len(late), 3)],
			fmt.Sprintf("nobody got %q from %v to %v (%v), with nothing wrong and nobody holding it; %s tried from %v to %v",
				name, since, limit, bound.All, late[0].Client, late[0].Start, late[0].End),
		})
	}
	return found
}
