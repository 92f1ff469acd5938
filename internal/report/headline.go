package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/judge"
)

// headline is the verdict in plain words. Its class picks the colour, its sign
// says the same to who sees none.
type headline struct{ Class, Sign, Word, Counts, Line string }

// newHeadline says no more than was found: only two rules are about two holders
// at once, and some say that nothing can be said.
func newHeadline(r *Run) headline {
	v := &r.Verdict
	h := headline{Counts: fmt.Sprintf("%s by %s on %s, %s.", count(v.Grants, "grant", "grants"),
		count(v.Clients, "client", "clients"), count(v.Names, "name", "names"), count(len(r.Faults), "fault", "faults"))}
	rules := v.Rules()
	broke := func(some ...string) bool {
		return slices.ContainsFunc(some, func(rule string) bool { return slices.Contains(rules, rule) })
	}
	switch {
	case broke(judge.RuleOverlap, judge.RulePorcupine):
		h.Class, h.Sign, h.Word = "bad", "✗", "Exclusion violated"
		h.Line = "Some lock had two holders at once, or was granted as no lock can be. " + tally(v)
	case broke(judge.RuleMalformed, judge.RuleTimeout):
		h.Class, h.Sign, h.Word = "unsure", "?", "Exclusion not shown"
		h.Line = "No two holders at once were found, but part of the history could not be judged. " + tally(v)
	case len(rules) > 0:
		h.Class, h.Sign, h.Word = "bad", "✗", "Exclusion held, other rules broken"
		h.Line = "No two holders at once were found. " + tally(v)
	case v.Grants == 0:
		h.Class, h.Sign, h.Word = "unsure", "?", "Nothing shown"
		h.Line = "No rule was broken, but nobody was ever granted a lock, so the run says nothing about exclusion."
	default:
		h.Class, h.Sign, h.Word = "ok", "✓", "Exclusion held"
		h.Line = "No two clients held a lock at once, and no other rule was broken."
	}
	return h
}

// tally counts the violations of each rule.
func tally(v *judge.Verdict) string {
	n := make(map[string]int)
	for i := range v.Violations {
		n[v.Violations[i].Rule]++
	}
	var parts []string
	for i, rule := range v.Rules() {
		if i == 12 { // judge has fewer
			parts = append(parts, "…")
			break
		}
		parts = append(parts, clean(rule, 80)+" × "+number(n[rule]))
	}
	return count(len(v.Violations), "violation", "violations") + ": " + strings.Join(parts, ", ") + "."
}
