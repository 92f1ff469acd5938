package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// place is what a lane of faults stands for.
type place struct {
	node   int // -1 for a client
	client string
}

func (f *Fault) place() place {
	if f.Node < 0 {
		return place{-1, f.Target}
	}
	return place{node: f.Node}
}

// where is the place in words.
func (f *Fault) where() string {
	if f.Node < 0 {
		return "client"
	}
	return "node " + strconv.Itoa(f.Node)
}

func (p place) String() string {
	switch {
	case p.node >= 0:
		return "node " + strconv.Itoa(p.node)
	case p.client == "":
		return "a client"
	}
	return "client " + p.client
}

// places are the lanes, the nodes first. A node without a fault has one too, since
// that it had none is worth seeing.
func (d *drawing) places(at map[place][]int) []place {
	ps := make([]place, 0, len(at))
	for p := range at {
		ps = append(ps, p)
	}
	for n := 0; n < d.run.Nodes && len(ps) < maxNodeLanes; n++ {
		if p := (place{node: n}); at[p] == nil {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b place) int {
		return cmp.Or(cmp.Compare(uint(a.node), uint(b.node)), natural(a.client, b.client)) // -1 becomes the last
	})
	if len(ps) > maxNodeLanes {
		d.notef("Faults hit %s places, of which %d are drawn.", number(len(ps)), maxNodeLanes)
		ps = ps[:maxNodeLanes]
	}
	return ps
}

// bands are the faults that are drawn, by place: the longest when there are too many.
func (d *drawing) bands() map[place][]int {
	faults := d.run.Faults
	var shown []int
	for i := range faults {
		if f := &faults[i]; d.shows(f.From, max(f.From, f.To)) {
			shown = append(shown, i)
		}
	}
	if len(shown) > maxBands {
		d.notef("Thinned out: of %s faults the %d longest are drawn.", number(len(shown)), maxBands)
		slices.SortStableFunc(shown, func(a, b int) int {
			return cmp.Compare(faults[b].To-faults[b].From, faults[a].To-faults[a].From)
		})
		shown = shown[:maxBands]
	}
	slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(faults[a].From, faults[b].From) })
	at := make(map[place][]int)
	for _, i := range shown {
		at[faults[i].place()] = append(at[faults[i].place()], i)
	}
	return at
}

func (d *drawing) nodeLanes(g *group, y int) int {
	at := d.bands()
	for _, p := range d.places(at) {
		l := lane{Label: clean(p.String(), 22), Full: clean(p.String(), 200), Y: y}
		taken := rows{most: maxBandRows}
		last := make([]int, maxBandRows) // of each row, where in Bars
		for _, i := range at[p] {
			f := &d.run.Faults[i]
			before := len(taken.ends)
			row := taken.put(f.From, max(f.From+1, f.To))
			if row < before {
				d.name(&l.Bars[last[row]], f.From)
			}
			last[row] = len(l.Bars)
			l.Bars = append(l.Bars, d.band(i, y+row*rowHeight))
		}
		for row := range taken.ends {
			d.name(&l.Bars[last[row]], d.to)
		}
		l.Height = max(len(taken.ends), 1) * rowHeight
		l.TextY = y + l.Height/2 + 4
		y += l.Height + laneGap
		g.Lanes = append(g.Lanes, l)
	}
	return y
}

// band is the bar of a fault.
func (d *drawing) band(i, y int) bar {
	f := &d.run.Faults[i]
	b := d.bar(f.From, f.To, y)
	kind := orDash(clean(f.Kind, 40))
	b.texts = []string{kind, "#" + strconv.Itoa(i+1)}
	span := fmt.Sprintf("from %s to %s (%s)", exact(b.from), exact(b.to), short(b.to-b.from))
	if f.To <= f.From {
		span = "at " + exact(b.from)
	}
	b.Tip = fmt.Sprintf("fault #%d on %s: %s %s", i+1, clean(f.place().String(), 60), kind, span)
	if f.Node >= 0 && f.Target != "" {
		b.Tip += ", " + clean(f.Target, 60)
	}
	return b
}

// name labels a band: within it, or behind it when the next in the row leaves
// room, and with its number when there is room for no more.
func (d *drawing) name(b *bar, next time.Duration) {
	for _, s := range b.texts {
		switch {
		case d.fits(s, b.from, b.to):
			b.Label, b.TextX = s, b.X
		case d.fits(s, b.to, next):
			b.Label, b.TextX = s, pct(d.part(b.to))
		default:
			continue
		}
		return
	}
}
