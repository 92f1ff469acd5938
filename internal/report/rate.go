package report

import (
	"fmt"
	"math"
	"time"
)

// rate is the chart of grants per second.
type rate struct {
	HeadY, Y, Height int
	Top              string // what the full height stands for
	Bars             []bar
	Summary          string
}

// rate counts the grants of all names, drawn or not, when their clients had them.
func (d *drawing) rate(y int) rate {
	r := rate{HeadY: y, Y: y + headHeight, Height: rateHeight}
	least := time.Second
	if d.to-d.from < 10*time.Second {
		least /= 10 // less than that, and one grant is a burst
	}
	step := d.step(120, least)
	first := d.from - d.from%step
	counts := make([]int, int((d.to-1-first)/step)+1)
	total := 0
	for _, hs := range d.named {
		for _, h := range hs {
			if h.from < d.from || h.from > d.to {
				continue
			}
			i := min(int((h.from-first)/step), len(counts)-1) // the last moment belongs to the step before it
			counts[i]++
			total++
		}
	}
	top := 0.0
	rates := make([]float64, len(counts))
	for i, n := range counts {
		// The first and the last step may be cut off by the axis.
		from, to := d.stretch(first, i, step)
		rates[i] = float64(n) / max((to-from).Seconds(), step.Seconds()/10)
		top = max(top, rates[i])
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		from, to := d.stretch(first, i, step)
		b := d.bar(from, to, 0)
		b.Height = max(int(math.Round(rates[i]/top*rateHeight)), 1)
		b.Y = r.Y + rateHeight - b.Height
		b.Tip = fmt.Sprintf("%s/s: %s from %s to %s", digits3(rates[i]), count(n, "grant", "grants"), exact(from), exact(to))
		r.Bars = append(r.Bars, b)
	}
	r.Top = digits3(top)
	r.Summary = fmt.Sprintf("%s/s granted in the mean, at most %s/s in a step of %s.",
		digits3(float64(total)/(d.to-d.from).Seconds()), r.Top, tidy(step))
	return r
}

// stretch is what of a step is on the axis.
func (d *drawing) stretch(first time.Duration, i int, step time.Duration) (from, to time.Duration) {
	from = first + time.Duration(int64(i)*int64(step))
	return max(from, d.from), from + min(d.to-from, step) // from+step may overflow
}

// digits3 writes a rate to three digits, without an exponent.
func digits3(f float64) string {
	switch {
	case f >= 100:
		return number(int(math.Round(f)))
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
