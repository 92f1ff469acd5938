package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are what Judge must know of the run.
type Options struct {
	TTL       time.Duration // the longest that any client asks for
	Leftovers []Leftover    // keys found afterwards
	Quiet     []Window      // times without faults; none: progress is not judged
	Bound     Bound         // for progress
	Timeout   time.Duration // of real time, for porcupine on each name; 0: DefaultTimeout
}

// DefaultTimeout is enough for tens of thousands of operations on one name.
const DefaultTimeout = 20 * time.Second

// Verdict is what Judge found. The counts belong to it: a history without grants
// breaks no rule, and shows nothing.
type Verdict struct {
	Violations []Violation
	Ops        int
	Grants     int // Acquires that are OK
	Names      int
	Clients    int
	Unknowns   int // operations whose outcome is unknown
}

// Judge holds a history to all rules.
func Judge(h History, o Options) Verdict {
	h = Merge(h)
	v := Verdict{Ops: len(h), Names: len(h.names())}
	clients := make(map[string]bool)
	for i := range h {
		clients[h[i].Client] = true
		if h[i].Kind == Acquire && h[i].Outcome == OK {
			v.Grants++
		}
		if h[i].Outcome == Unknown {
			v.Unknowns++
		}
	}
	v.Clients = len(clients)
	v.Violations = slices.Concat(Malformed(h), Overlaps(h), EarlyTrust(h), FenceOrder(h), Leftovers(h, o.Leftovers, o.TTL))
	for _, w := range o.Quiet {
		v.Violations = append(v.Violations, Progress(h, w, o.Bound)...)
	}
	v.Violations = append(v.Violations, Linearizable(h, o.Timeout)...)
	return v
}

// OK reports whether no rule was broken.
func (v Verdict) OK() bool { return len(v.Violations) == 0 }

// Rules are the rules that were broken, each once, in the order of the report.
func (v Verdict) Rules() []string {
	var rules []string
	for i := range v.Violations {
		if r := v.Violations[i].Rule; !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	return rules
}

// maxShown keeps the report readable: one bug makes thousands of overlaps.
const maxShown = 10

// String is the verdict in a few lines.
func (v Verdict) String() string {
	var b strings.Builder
	word := "acquitted"
	if !v.OK() {
		word = fmt.Sprintf("condemned: %d violations", len(v.Violations))
	}
	fmt.Fprintf(&b, "%s; %d operations (%d unknown), %d grants, %d names, %d clients\n",
		word, v.Ops, v.Unknowns, v.Grants, v.Names, v.Clients)
	for i := range v.Violations {
		if i == maxShown {
			fmt.Fprintf(&b, "  and %d more\n", len(v.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "  %v\n", v.Violations[i])
	}
	return b.String()
}
