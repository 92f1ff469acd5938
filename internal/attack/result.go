package attack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// Result is what came of an attack.
type Result struct {
	Seed           uint64        `json:"seed"`
	Profile        Profile       `json:"profile"`
	Kind           string        `json:"kind"` // of the nodes
	Nodes          int           `json:"nodes"`
	NodeNames      []string      `json:"node_names"` // without secrets
	Clients        int           `json:"clients"`
	Workers        int           `json:"workers"`
	Names          int           `json:"names"`
	TTLMillis      int64         `json:"ttl_ms"`
	Seconds        float64       `json:"seconds"`
	QuietSeconds   float64       `json:"quiet_seconds"`
	ProgressJudged bool          `json:"progress_judged"` // the quiet part was long enough
	Ops            int           `json:"ops"`
	Unknowns       int           `json:"unknowns"`
	Grants         int           `json:"grants"`
	GrantsPerSec   float64       `json:"grants_per_second"`
	Handover       Latency       `json:"handover"` // from a Release to the next grant, where somebody waited
	Loss           Latency       `json:"loss"`     // from the end of a hold without one to the next grant
	Losses         int           `json:"losses"`   // leases that ended before their release
	Faults         []FaultRecord `json:"faults"`
	FaultsSkipped  int           `json:"faults_skipped"` // a node was not sound again in time
	Verdict        Verdict       `json:"verdict"`
	Violations     []Violation   `json:"violations"`
	Kept           string        `json:"history,omitempty"` // the folder with the history, if it was kept

	// History is what the clients saw, on the clock of the faults' AtMillis,
	// and Judged what the judge said of it.
	History judge.History `json:"-"`
	Judged  judge.Verdict `json:"-"`
	Theirs  bool          `json:"-"` // the nodes are a user's
}

// Verdict is what the judge makes of a run.
type Verdict string

// The verdicts. Nothing is a run without a grant, which breaks no rule and
// shows none kept either.
const (
	Clean    Verdict = "clean"
	Violated Verdict = "violated"
	Nothing  Verdict = "nothing shown"
)

// FaultRecord is a fault as it happened.
type FaultRecord struct {
	AtMillis int64  `json:"at_ms"`  // on the history's clock
	Millis   int64  `json:"for_ms"` // until it was undone
	Kind     Kind   `json:"kind"`
	Node     string `json:"node,omitempty"`
	Client   string `json:"client,omitempty"`
	Error    string `json:"error,omitempty"` // it was not made, or not wholly

	Hit []int `json:"-"` // the nodes, by their place in the list
}

// Violation is one rule that was broken.
type Violation struct {
	Rule     string `json:"rule"`
	Name     string `json:"name"`
	AtMillis int64  `json:"at_ms"`
	Text     string `json:"text"`
}

// Latency is a distribution.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// AsExpected reports whether the run showed what its profile is to show.
func (r *Result) AsExpected() bool {
	if r.Profile == Beyond {
		return r.Verdict == Violated
	}
	return r.Verdict == Clean
}

// result puts together what is known, and keeps the history if it has to be
// looked at.
func (r *run) result(h judge.History, v judge.Verdict, quiet judge.Window, length time.Duration) (Result, error) {
	out := Result{
		Seed: r.c.Seed, Profile: r.c.Profile, Kind: r.field.kind, Nodes: r.c.size(), Clients: r.c.Clients, Workers: r.c.Workers,
		Names: r.c.Names, TTLMillis: r.c.TTL.Milliseconds(), Seconds: seconds(length), QuietSeconds: seconds(quiet.To - quiet.From),
		ProgressJudged: quiet.To-quiet.From >= r.c.bound().All, Ops: v.Ops, Unknowns: v.Unknowns, Grants: v.Grants,
		GrantsPerSec: math.Round(float64(v.Grants)/length.Seconds()*10) / 10, Faults: r.done, FaultsSkipped: r.skipped,
		Verdict: Clean, Violations: []Violation{}, History: h, Judged: v, Theirs: !r.c.own(),
	}
	for _, m := range r.field.members {
		out.NodeNames = append(out.NodeNames, m.name)
	}
	if out.Faults == nil {
		out.Faults = []FaultRecord{}
	}
	slices.SortStableFunc(out.Faults, func(a, b FaultRecord) int { return cmp.Compare(a.AtMillis, b.AtMillis) })
	out.measure(h)
	for i := range v.Violations {
		w := &v.Violations[i]
		out.Violations = append(out.Violations, Violation{w.Rule, w.Name, w.At.Milliseconds(), w.Text})
	}
	switch {
	case !v.OK():
		out.Verdict = Violated
	case v.Grants == 0:
		out.Verdict = Nothing
	}
	if out.AsExpected() && (out.Verdict == Clean || r.c.Dir == "") {
		return out, nil
	}
	var err error
	if out.Kept, err = r.keep(&out); err != nil {
		return out, fmt.Errorf("attack: the history could not be kept: %w", err)
	}
	return out, nil
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*100) / 100 }

// keep writes the history, the result and the porcupine page of every name that
// fails.
func (r *run) keep(out *Result) (dir string, err error) {
	if dir = r.c.Dir; dir == "" {
		dir, err = os.MkdirTemp("", fmt.Sprintf("redlock-chaos-seed%d-", r.c.Seed))
	} else {
		err = os.MkdirAll(dir, 0o750)
	}
	if err != nil {
		return "", err
	}
	write := func(name string, do func(*os.File) error) error {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return errors.Join(do(f), f.Close())
	}
	out.Kept = dir
	err = errors.Join(
		write("history.jsonl", func(f *os.File) error { return out.History.Write(f) }),
		write("result.json", func(f *os.File) error {
			enc := json.NewEncoder(f)
			enc.SetIndent("", "  ")
			return enc.Encode(out)
		}))
	for i := range r.c.Names {
		name := lockName(i)
		if slices.ContainsFunc(out.Violations, func(v Violation) bool { return v.Name == name }) {
			err = errors.Join(err, write(name+".html", func(f *os.File) error {
				_, err := judge.Visualize(f, out.History, name, 0)
				return err
			}))
		}
	}
	return dir, err
}

// Hold is one grant of a name: from when its client knew of it to when it no
// longer relied on it.
type Hold struct {
	Client, Name, Token string
	Asked, From, To     time.Duration
	Released            bool // else its context ended, its promise did, or its client died
}

// Holds are the grants of a history, in order of their beginnings. They are for
// showing and measuring; who judges reads the history.
func Holds(h judge.History) []Hold {
	by := make(map[string]*Hold)
	var order []string
	end := make(map[string]time.Duration) // the first Release, or sight of the end
	released := make(map[string]bool)
	for _, o := range judge.Merge(h) {
		switch {
		case o.Kind == judge.Acquire && o.Outcome == judge.OK:
			by[o.Token] = &Hold{Client: o.Client, Name: o.Name, Token: o.Token, Asked: o.Start, From: o.End, To: o.Until}
			order = append(order, o.Token)
		case o.Kind == judge.Extend && o.Outcome == judge.OK && by[o.Token] != nil:
			by[o.Token].To = max(by[o.Token].To, o.Until)
		}
		at, ends := o.End, o.Kind == judge.Lost || o.Kind == judge.Check && o.Outcome == judge.Failed
		if o.Kind == judge.Release {
			at, ends = o.Start, true
		}
		if was, ok := end[o.Token]; ends && (!ok || at < was) {
			end[o.Token], released[o.Token] = at, o.Kind == judge.Release
		}
	}
	holds := make([]Hold, 0, len(order))
	for _, t := range order {
		b := by[t]
		if at, ok := end[t]; ok && at <= b.To {
			b.To, b.Released = at, released[t]
		}
		holds = append(holds, *b)
	}
	slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
	return holds
}

// measure takes the times between holds: only where the next holder was waiting
// already, for else it is a time in which nobody wanted the name.
func (r *Result) measure(h judge.History) {
	last := make(map[string]*Hold)
	var handover, loss []time.Duration
	holds := Holds(h)
	for i := range holds {
		b := &holds[i]
		if !b.Released {
			r.Losses++
		}
		if a := last[b.Name]; a != nil && b.Asked <= a.To && b.From >= a.To {
			if a.Released {
				handover = append(handover, b.From-a.To)
			} else {
				loss = append(loss, b.From-a.To)
			}
		}
		last[b.Name] = b
	}
	r.Handover, r.Loss = distribution(handover), distribution(loss)
}

func distribution(all []time.Duration) Latency {
	l := Latency{Count: len(all)}
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		d := all[min(len(all)-1, int(q*float64(len(all))))]
		return math.Round(d.Seconds()*1e5) / 100
	}
	l.P50, l.P99, l.Max = at(0.5), at(0.99), at(1)
	return l
}
