package report

import (
	"fmt"
	"strconv"
	"time"
)

// Heights, in pixels. Widths are percentages of whatever the page has.
const (
	axisHeight  = 22
	headHeight  = 24 // of the word above a group of lanes
	rowHeight   = 16
	laneGap     = 6
	rateHeight  = 72
	maxRows     = 3   // of holders side by side in one lane, which is a violation
	maxBandRows = 4   // of faults side by side
	narrow      = 680 // the narrowest that the drawing becomes, which texts must fit
	letter      = 6.6 // what a letter takes of it
)

// plot is the drawing.
type plot struct {
	Height, Bottom int // Bottom: where the lines of the time end
	Ticks          []tick
	Locks, Nodes   group
	Rate           rate
	Summary        string
}

// group is lanes under one word.
type group struct {
	HeadY int
	Lanes []lane
}

// lane is a name, or what was faulty.
type lane struct {
	Label, Full      string
	Y, Height, TextY int
	Bars             []bar
	Marks            []mark
}

// bar is an interval. Its label is empty where there is no room for one.
type bar struct {
	X, W         string
	Y, Height    int
	Class        string
	Client       int
	Tip          string
	Label, TextX string
	TextY        int

	from, to time.Duration
	texts    []string // that may become the label, the better first
}

// mark is a violation in a lane.
type mark struct {
	N         int
	X         string
	Y, Height int
	Tip       string
}

func (d *drawing) plot() plot {
	p := plot{Ticks: d.ticks()}
	y := axisHeight
	p.Locks.HeadY = y
	y = d.lockLanes(&p.Locks, y+headHeight)
	p.Nodes.HeadY = y
	y = d.nodeLanes(&p.Nodes, y+headHeight)
	p.Rate = d.rate(y)
	p.Bottom = y + headHeight + rateHeight
	p.Height = p.Bottom + laneGap
	p.Summary = fmt.Sprintf("From %s to %s: %s, %s. %s", exact(d.from), exact(d.to),
		count(len(p.Locks.Lanes), "name", "names"), count(len(d.run.Faults), "fault", "faults"), p.Rate.Summary)
	return p
}

// rows puts intervals that overlap into rows, as few as possible up to a bound.
type rows struct {
	ends []time.Duration
	most int
}

func (r *rows) put(from, to time.Duration) int {
	best := 0
	for i, end := range r.ends {
		if end <= from {
			r.ends[i] = to
			return i
		}
		if end < r.ends[best] {
			best = i
		}
	}
	if len(r.ends) < r.most {
		r.ends = append(r.ends, to)
		return len(r.ends) - 1
	}
	r.ends[best] = max(r.ends[best], to)
	return best
}

func (d *drawing) lockLanes(g *group, y int) int {
	names := d.lanes()
	picked := d.pick(names)
	at := make(map[string]int, len(names))
	for i, name := range names {
		l := lane{Label: clean(name, 22), Full: clean(name, 200), Y: y}
		taken := rows{most: maxRows}
		for _, h := range picked[name] {
			l.Bars = append(l.Bars, d.holdBar(h, y+taken.put(h.from, h.to)*rowHeight))
		}
		l.Height = max(len(taken.ends), 1) * rowHeight
		l.TextY = y + l.Height/2 + 4
		y += l.Height + laneGap
		at[name] = i
		g.Lanes = append(g.Lanes, l)
	}
	for i := range d.list {
		v := &d.list[i]
		n, ok := at[v.name]
		if !ok || !d.shows(v.at, v.at) {
			continue
		}
		l := &g.Lanes[n]
		v.Marked = true
		l.Marks = append(l.Marks, mark{v.N, pct(d.part(v.at)), l.Y, l.Height,
			fmt.Sprintf("violation #%d, %s, at %s: to the list", v.N, v.Rule, v.At)})
	}
	return y
}

func (d *drawing) holdBar(h *hold, y int) bar {
	b := d.bar(h.from, h.to, y)
	b.Client = d.index[h.client]
	b.Class = "c" + strconv.Itoa(b.Client%colours)
	b.Tip = h.tip()
	if ns := d.bad[h.token]; ns != nil {
		b.Class += " bad"
		b.Tip += ", in violation " + numbers(ns)
	}
	if who := clean(h.client, 24); d.fits(who, h.from, h.to) {
		b.Label, b.TextX = who, b.X
	}
	return b
}

// bar places an interval, or what of it is on the axis. SVG draws nothing that has
// no width, so it has some; the edge of a pixel makes it visible.
func (d *drawing) bar(from, to time.Duration, y int) bar {
	x := d.part(from)
	to = max(from, to)
	return bar{X: pct(x), W: pct(max(d.part(to)-x, 0.0001)), Y: y, Height: rowHeight - 2, TextY: y + rowHeight - 5, from: from, to: to}
}

// fits reports whether a text has room, on the narrowest drawing.
func (d *drawing) fits(s string, from, to time.Duration) bool {
	return (d.part(to)-d.part(from))*narrow > float64(len([]rune(s)))*letter+8
}
