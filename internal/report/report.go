// Package report writes the page of a chaos run: one HTML file that needs
// nothing beside it, so that it can be mailed, archived and opened years later.
// It shows and does not judge: what was wrong comes from [judge.Verdict].
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// Run is a chaos run and what became of it.
type Run struct {
	Title    string
	Seed     uint64
	Profile  string
	Nodes    int
	Clients  int           // that the run was set up with; those in the history are counted by the verdict
	TTL      time.Duration // that the clients asked for
	Took     time.Duration // of real time
	Ops      []judge.Op
	Faults   []Fault
	Verdict  judge.Verdict
	Latency  []Latency
	From, To time.Duration // the time that is drawn, on the clock of Ops; To of 0: up to the last event
	Command  string        // that runs it again
}

// Fault is something that was done to a node or a client. A To that is not after
// From is a fault of one instant.
type Fault struct {
	Node     int    // -1: a client
	Target   string // what the faulty thing is called
	Kind     string
	From, To time.Duration
}

// Latency is how long one kind of operation took.
type Latency struct {
	Name          string
	Count         int
	P50, P99, Max time.Duration
}

// The bounds of a page. A browser shows some thousands of bars at once, and a
// reader far fewer; whatever is left out is said on the page.
const (
	maxBars       = 4000 // intervals of holders, all names together
	maxLanes      = 60   // names that are drawn
	maxBands      = 600  // faults that are drawn
	maxNodeLanes  = 48
	maxFaultRows  = 300 // of the table
	maxViolations = 200
	maxOps        = 12 // of one violation
	maxLatency    = 100
	maxLegend     = 48
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Write writes the page. All of it or, when the page cannot be made, nothing is
// given to w.
func Write(w io.Writer, r Run) error {
	var b bytes.Buffer
	if err := page.Execute(&b, newView(&r)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// view is what the template shows. Its texts are cleaned and bounded, but not
// escaped: that is the template's part.
type view struct {
	Title      string
	Verdict    headline
	Command    string
	Facts      []fact
	Plot       plot
	Notes      []string // what is not drawn, and why
	Clients    []legend
	MoreNames  int // clients that the legend leaves out
	Repeats    bool
	Violations []violation
	MoreBad    int
	Faults     []faultRow
	MoreFaults int
	Latency    []latencyRow
	MoreTimes  int
}

// fact is a line of what the run was set up with.
type fact struct{ Name, Value string }

// legend is a client beside its colour.
type legend struct {
	Index  int
	Colour int
	Name   string
	Grants string
}

// faultRow is a fault in the table; its number is that in the drawing.
type faultRow struct {
	N                   int
	Where, Target, Kind string
	From, To, Took      string
}

type latencyRow struct{ Name, Count, P50, P99, Max string }

func newView(r *Run) *view {
	d := newDrawing(r)
	v := &view{
		Title:   clean(r.Title, 200),
		Verdict: newHeadline(r),
		Command: command(r.Command),
		Facts:   facts(r, d.axis),
		Plot:    d.plot(),
	}
	if v.Title == "" {
		v.Title = "Chaos run"
	}
	v.Clients, v.MoreNames = d.legend()
	v.Repeats = len(d.clients) > colours
	v.Violations, v.MoreBad = d.list, len(r.Verdict.Violations)-len(d.list)
	v.faults(r.Faults)
	v.latency(r.Latency)
	v.Notes = d.notes
	return v
}

// facts are what the run was.
func facts(r *Run, a axis) []fact {
	return []fact{
		{"Seed", fmt.Sprint(r.Seed)},
		{"Profile", orDash(clean(r.Profile, 80))},
		{"Redis nodes", number(r.Nodes)},
		{"Clients", number(r.Clients)},
		{"TTL", short(r.TTL)},
		{"Took", short(r.Took)},
		{"Time drawn", exact(a.from) + " to " + exact(a.to)},
		{"Operations", fmt.Sprintf("%s (%s unknown)", number(r.Verdict.Ops), number(r.Verdict.Unknowns))},
	}
}

func (v *view) faults(faults []Fault) {
	for i := range faults {
		if i == maxFaultRows {
			v.MoreFaults = len(faults) - i
			return
		}
		f := &faults[i]
		row := faultRow{
			N: i + 1, Where: f.where(), Target: orDash(clean(f.Target, 80)), Kind: orDash(clean(f.Kind, 80)),
			From: exact(f.From), To: exact(f.To), Took: short(f.To - f.From),
		}
		if f.To <= f.From {
			row.To, row.Took = row.From, "an instant"
		}
		v.Faults = append(v.Faults, row)
	}
}

func (v *view) latency(all []Latency) {
	for i, l := range all {
		if i == maxLatency {
			v.MoreTimes = len(all) - i
			return
		}
		v.Latency = append(v.Latency, latencyRow{
			clean(l.Name, 80), number(l.Count), short(l.P50), short(l.P99), short(l.Max),
		})
	}
}
