package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// colours is how many the page has for clients; with more clients they repeat.
const colours = 10

// drawing is what the parts of the page share.
type drawing struct {
	axis
	run     *Run
	named   map[string][]*hold
	clients []string       // that got a grant, in natural order
	index   map[string]int // of a client in clients
	grants  map[string]int // of a client
	list    []violation
	bad     map[token][]int // tokens in a listed violation, with its numbers
	notes   []string
}

func newDrawing(r *Run) *drawing {
	d := &drawing{
		axis: newAxis(r), run: r, named: holds(r.Ops),
		index: make(map[string]int), grants: make(map[string]int), bad: make(map[token][]int),
	}
	for _, hs := range d.named {
		for _, h := range hs {
			d.grants[h.client]++
		}
	}
	for c := range d.grants {
		d.clients = append(d.clients, c)
	}
	slices.SortFunc(d.clients, natural)
	for i, c := range d.clients {
		d.index[c] = i
	}
	d.violations()
	return d
}

func (d *drawing) notef(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// legend are the clients, those with the most grants when there are too many.
func (d *drawing) legend() (shown []legend, more int) {
	names := slices.Clone(d.clients)
	if len(names) > maxLegend {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(d.grants[b], d.grants[a]) })
		names = names[:maxLegend]
		slices.SortFunc(names, natural)
	}
	for _, c := range names {
		shown = append(shown, legend{d.index[c], d.index[c] % colours, clean(c, 40), count(d.grants[c], "grant", "grants")})
	}
	return shown, len(d.clients) - len(names)
}

// lanes are the names that are drawn: when there are too many, those in a listed
// violation and then those with the most grants.
func (d *drawing) lanes() []string {
	var names []string
	seen := make(map[string]bool)
	see := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range d.list {
		see(d.list[i].name)
	}
	wronged := len(names)
	for i := range d.run.Ops {
		see(d.run.Ops[i].Name)
	}
	if len(names) > maxLanes {
		d.notef("Of %s names %d are drawn: those with a listed violation, then those with the most grants.", number(len(names)), maxLanes)
		slices.SortFunc(names[wronged:], func(a, b string) int {
			return cmp.Or(cmp.Compare(len(d.named[b]), len(d.named[a])), natural(a, b))
		})
		names = names[:maxLanes]
	}
	slices.SortFunc(names, natural)
	return names
}

// pick is what of the holds is drawn, by name.
func (d *drawing) pick(names []string) map[string][]*hold {
	picked := make(map[string][]*hold, len(names))
	all, empty := 0, 0
	for _, name := range names {
		for _, h := range d.named[name] {
			switch {
			case h.to <= h.from:
				empty++
			case d.shows(h.from, h.to):
				picked[name] = append(picked[name], h)
				all++
			}
		}
	}
	if empty > 0 {
		d.notef("%s not drawn: the validity was over before the client had the answer.", count(empty, "grant is", "grants are"))
	}
	if all <= maxBars {
		return picked
	}
	drawn := 0
	for name, hs := range picked {
		keep := max(1, len(hs)*maxBars/all)
		picked[name] = thin(hs, keep, d.axis, func(h *hold) bool { return d.bad[h.token] != nil })
		drawn += len(picked[name])
	}
	d.notef("Thinned out: of %s intervals %s are drawn, in each short slice of time the longest, and all of a listed violation.",
		number(all), number(drawn))
	return picked
}

// violation is one in the list.
type violation struct {
	N              int
	Rule, At, Lock string
	Text           string
	Ops            []string
	More           int // operations that are left out
	Marked         bool
	name           string
	at             time.Duration
}

// violations makes the list, and finds the tokens that are in it.
func (d *drawing) violations() {
	for i := range d.run.Verdict.Violations {
		if i == maxViolations {
			d.notef("Of %s violations the first %d are listed and marked.", number(len(d.run.Verdict.Violations)), i)
			return
		}
		v := &d.run.Verdict.Violations[i]
		out := violation{
			N: i + 1, Rule: clean(v.Rule, 80), At: exact(v.At), Lock: orDash(clean(v.Name, 120)),
			Text: clean(v.Text, 1500), name: v.Name, at: v.At,
		}
		ops := v.Ops
		if out.More = len(ops) - maxOps; out.More > 0 {
			// Both ends, because the two sides of a violation stand one behind the other.
			ops = slices.Concat(ops[:maxOps/2], ops[len(ops)-maxOps/2:])
		}
		for j := range ops {
			out.Ops = append(out.Ops, opText(&ops[j]))
			if k := (token{ops[j].Name, ops[j].Token}); k.token != "" && !slices.Contains(d.bad[k], i+1) {
				d.bad[k] = append(d.bad[k], i+1)
			}
		}
		d.list = append(d.list, out)
	}
}

// opText is the operation as judge writes it, which may have three long texts.
func opText(o *judge.Op) string { return clean(o.String(), 300) }

// numbers are those of violations, as #1, #2.
func numbers(ns []int) string {
	s := ""
	for i, n := range ns {
		if i == 5 {
			return s + " and more"
		}
		if i > 0 {
			s += ", "
		}
		s += "#" + strconv.Itoa(n)
	}
	return s
}
