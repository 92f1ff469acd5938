package report

import (
	"strconv"
	"strings"
	"time"
)

// axis is the time that is drawn. Places on it are percentages, so that the
// drawing can be made wider without its texts.
type axis struct{ from, to time.Duration }

// newAxis takes the run's window, or what its events need.
func newAxis(r *Run) axis {
	a := axis{max(r.From, 0), r.To}
	if r.To <= 0 {
		for i := range r.Ops {
			a.to = max(a.to, r.Ops[i].End)
		}
		for i := range r.Faults {
			a.to = max(a.to, r.Faults[i].From, r.Faults[i].To)
		}
	}
	if a.to <= a.from {
		a.from = min(a.from, time.Duration(1<<62)) // a history is no place to overflow
		a.to = a.from + time.Second
	}
	return a
}

// part is where a moment lies, from 0 to 1.
func (a axis) part(t time.Duration) float64 {
	t = min(max(t, a.from), a.to)
	return float64(t-a.from) / float64(a.to-a.from)
}

// shows reports whether some of an interval is drawn.
func (a axis) shows(from, to time.Duration) bool { return from <= a.to && to >= a.from }

// pct writes a part as SVG has it, to a hundredth of a pixel.
func pct(part float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(part*100, 'f', 3, 64), "0"), ".") + "%"
}

// steps are the distances that a reader of a clock counts in.
func steps(yield func(time.Duration) bool) {
	for d := time.Duration(1); d < 10*time.Second; d *= 10 {
		if !yield(d) || !yield(2*d) || !yield(5*d) {
			return
		}
	}
	const s, m = time.Second, time.Minute
	for _, d := range []time.Duration{10 * s, 20 * s, 30 * s, m, 2 * m, 5 * m, 10 * m, 20 * m, 30 * m} {
		if !yield(d) {
			return
		}
	}
	for d := time.Hour; d > 0; d *= 2 { // until it overflows
		if !yield(d) {
			return
		}
	}
}

// step is the smallest that is not under least and cuts the axis into no more
// than so many.
func (a axis) step(parts int, least time.Duration) time.Duration {
	last := time.Duration(1)
	for d := range steps {
		if last = d; d >= least && (a.to-a.from)/d < time.Duration(parts) {
			break
		}
	}
	return last
}

// tick is a labelled moment. A fine one is for who looks closer.
type tick struct {
	X, Anchor, Text string
	Fine            bool
}

func (a axis) ticks() []tick {
	coarse := a.step(9, 1)
	fine := max(coarse/5, 1)
	var ts []tick
	first := a.from
	if rest := first % fine; rest > 0 {
		first += fine - rest
	}
	for t := first; t >= a.from && t <= a.to; t += fine { // t may overflow
		p := a.part(t)
		k := tick{X: pct(p), Anchor: "middle", Text: tidy(t), Fine: t%coarse != 0}
		switch {
		case p < 0.02:
			k.Anchor = "start"
		case p > 0.97:
			k.Anchor = "end"
		}
		ts = append(ts, k)
	}
	return ts
}
