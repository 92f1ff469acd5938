// Package judge looks at what lock clients saw, after a run, and says whether a
// lock could have behaved like that. The clients may be simulated or processes;
// all that is needed is one monotonic clock for all of them.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is what a client did.
type Kind string

// The kinds. Lost is the moment the lease's context was seen done; Check is a
// look at that context: OK when it was alive, Failed when it was done.
const (
	Acquire Kind = "acquire"
	Extend  Kind = "extend"
	Release Kind = "release"
	Lost    Kind = "lost"
	Check   Kind = "check"
)

// Outcome is how it ended for the client.
type Outcome string

// The outcomes. An operation whose outcome is Unknown may have happened at any
// time after its start, or never.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Op is one operation of one client, and one line of a history.
type Op struct {
	Client  string        `json:"c"`
	Kind    Kind          `json:"k"`
	Name    string        `json:"n"`
	Token   string        `json:"t,omitempty"` // of the lease, by itself or before a slash: see [HandedOver]
	Fence   uint64        `json:"f,omitempty"` // 0: none
	Start   time.Duration `json:"s"`
	End     time.Duration `json:"e"`
	Outcome Outcome       `json:"o"`
	Until   time.Duration `json:"u,omitempty"` // promised by an Acquire or Extend that is OK
}

// HandedOver is the token of a lease that was handed over inside a process: on the
// nodes it is the one of the lease before, in a history the n-th of that token, since
// each lease has an interval of its own.
func HandedOver(token string, n int) string { return token + "/" + strconv.Itoa(n) }

// onNodes is what the nodes have for the token of a history.
func onNodes(token string) string {
	before, _, _ := strings.Cut(token, "/")
	return before
}

// maxText bounds each string of an Op, and with it the length of a line.
const maxText = 4096

// check refuses what no recorder that works writes.
func (o *Op) check() error {
	for _, s := range []string{o.Client, o.Name, o.Token} {
		if len(s) > maxText {
			return fmt.Errorf("a text of %d bytes, more than %d", len(s), maxText)
		}
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not UTF-8", s)
		}
	}
	switch {
	case !slices.Contains([]Kind{Acquire, Extend, Release, Lost, Check}, o.Kind):
		return fmt.Errorf("kind %.40q is none", string(o.Kind))
	case !slices.Contains([]Outcome{OK, Failed, Unknown}, o.Outcome):
		return fmt.Errorf("outcome %.40q is none", string(o.Outcome))
	case o.Client == "":
		return fmt.Errorf("%s without a client", o.Kind)
	case o.Name == "":
		return fmt.Errorf("%s without a name", o.Kind)
	case o.Token == "" && (o.Kind != Acquire || o.Outcome == OK):
		return fmt.Errorf("%s %s without a token", o.Kind, o.Outcome)
	case o.Start < 0 || o.End < o.Start:
		return fmt.Errorf("%s from %d to %d", o.Kind, o.Start, o.End)
	case o.Until < 0:
		return fmt.Errorf("%s until %d", o.Kind, o.Until)
	}
	return nil
}

// promises reports whether the operation gave its client a validity.
func (o *Op) promises() bool {
	return o.Outcome == OK && (o.Kind == Acquire || o.Kind == Extend)
}

// String is the operation as a reader of a verdict wants it.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %q", o.Client, o.Kind, o.Name)
	if o.Token != "" {
		fmt.Fprintf(&b, " token %s", o.Token)
	}
	if o.Fence != 0 {
		fmt.Fprintf(&b, " fence %d", o.Fence)
	}
	fmt.Fprintf(&b, " from %v to %v: %s", o.Start, o.End, o.Outcome)
	if o.promises() {
		fmt.Fprintf(&b, ", until %v", o.Until)
	}
	return b.String()
}

// History is what one or more clients did. The order does not matter. It must be
// whole: a Release that was under way when its client was killed has to be there,
// as Unknown, or its hold seems to last until its promise ends, and the next to
// overlap with it. So a recorder notes the start of a Release before it begins.
type History []Op

// Merge puts histories together, by the starts of their operations.
func Merge(histories ...History) History {
	all := slices.Concat(histories...)
	order := func(a, b Op) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) }
	if !slices.IsSortedFunc(all, order) { // as it is for every rule after the first
		slices.SortStableFunc(all, order)
	}
	return all
}

// names are the names in the history, sorted.
func (h History) names() []string {
	var names []string
	seen := make(map[string]bool)
	for i := range h {
		if n := h[i].Name; !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
