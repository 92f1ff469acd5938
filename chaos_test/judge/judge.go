package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos_test/history"
)

// rules are what a run is held to.
type rules struct {
	nodeTimeout time.Duration
	slack       time.Duration // for scheduling on a busy machine
	waiting     bool          // clients waited, so nothing may fail before the end of the run
	maxGap      time.Duration // longest time without a grant; 0 = not judged
	minGrants   int
}

// verdict is what the judge found.
type verdict struct {
	clients, grants, lost, unknown int
	names                          map[string]int // overlaps per name
	failed, failedEarly            int
	longestFailed                  time.Duration // before the end of the run
	longestLate                    time.Duration // a failed one returned that long after the end of the run
	longestGap                     time.Duration
	notes                          []string // lost leases and releases that nobody answered: allowed, and worth a look
	charges                        []string // empty: acquitted
}

// They keep the report readable: one bug makes thousands of overlaps.
const (
	maxCharges = 20
	maxNotes   = 5
)

func (v *verdict) charge(format string, args ...any) {
	v.charges = append(v.charges, fmt.Sprintf(format, args...))
}

// judge judges the histories of one run, each by its own name (a file).
func judge(histories map[string][]history.Record, r rules) *verdict {
	v := &verdict{names: make(map[string]int)}
	holds := make(map[string][]history.Record)
	begin, end := int64(0), int64(0)
	for _, file := range slices.Sorted(maps.Keys(histories)) {
		recs := histories[file]
		if !v.frame(file, recs) {
			continue
		}
		run := recs[0]
		if begin == 0 || run.At < begin {
			begin = run.At
		}
		end = max(end, run.End)
		for _, rec := range recs[1 : len(recs)-1] {
			v.acquisition(&rec, &run, r, holds)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		v.names[name] = v.overlaps(holds[name])
	}
	v.gaps(holds, begin, end, r)
	if v.clients == 0 {
		v.charge("no complete history: nothing to judge is no acquittal")
	}
	if v.grants < r.minGrants {
		v.charge("%d grants, fewer than %d: a lock that grants nothing is not safe but dead", v.grants, r.minGrants)
	}
	return v
}

// frame checks that a history is whole, and what its client said at the end.
func (v *verdict) frame(file string, recs []history.Record) bool {
	if len(recs) < 2 || recs[0].Kind != history.Begin || recs[0].End <= recs[0].At {
		v.charge("%s: does not begin with a run", file)
		return false
	}
	last := recs[len(recs)-1]
	if last.Kind != history.Close {
		v.charge("%s: has no end: the client died, and what it held then is not known", file)
		return false
	}
	v.clients++
	if last.Goroutines > last.BaseGoroutines {
		v.charge("%s: %d goroutines after Close, %d before New", file, last.Goroutines, last.BaseGoroutines)
	}
	return true
}

// acquisition files one record.
func (v *verdict) acquisition(rec, run *history.Record, r rules, holds map[string][]history.Record) {
	switch {
	case rec.Kind != history.Acquire:
		v.charge("%s: a record of kind %q within a run", run.Client, rec.Kind)
	case rec.Result == history.Failed:
		v.failure(rec, run, r)
	case rec.Result != history.OK && rec.Result != history.Unknown:
		v.charge("%s: a result %q", run.Client, rec.Result)
	case rec.Name == "" || rec.Acquired < rec.At || rec.Acquired == 0 || rec.Released == 0:
		v.charge("%s: a hold of %q that makes no sense: called at %d, acquired at %d, released at %d",
			run.Client, rec.Name, rec.At, rec.Acquired, rec.Released)
	default:
		v.grants++
		if rec.Result == history.Unknown {
			v.unknown++
		}
		if rec.Lost {
			v.lost++
		}
		if (rec.Lost || rec.Result == history.Unknown) && len(v.notes) < maxNotes {
			v.notes = append(v.notes, fmt.Sprintf("%s: %q, %v into the run: %s",
				run.Client, rec.Name, time.Duration(rec.Released-run.At), rec.Error))
		}
		holds[rec.Name] = append(holds[rec.Name], *rec)
	}
}

// failure judges an acquisition that failed. The end of the run ends every
// wait, and may take a node timeout to do so; before it, a failure that lasted
// longer than a node timeout is one that a sick node held up.
func (v *verdict) failure(rec, run *history.Record, r rules) {
	v.failed++
	limit := r.nodeTimeout + r.slack
	lasted := time.Duration(rec.End - rec.At)
	late := time.Duration(rec.End - run.End)
	switch {
	case lasted < 0 || rec.At == 0:
		v.charge("%s: a failure of %q that makes no sense: from %d to %d", run.Client, rec.Name, rec.At, rec.End)
	case late >= 0:
		v.longestLate = max(v.longestLate, late)
		if late > limit {
			v.charge("%s: %q failed %v after the end of the run, more than %v: %s", run.Client, rec.Name, late, limit, rec.Error)
		}
	default:
		v.failedEarly++
		v.longestFailed = max(v.longestFailed, lasted)
		switch {
		case r.waiting:
			v.charge("%s: %q failed %v before the end of the run though it was to wait: %s", run.Client, rec.Name, -late, rec.Error)
		case lasted > limit:
			v.charge("%s: %q took %v to fail, more than %v: %s", run.Client, rec.Name, lasted, limit, rec.Error)
		}
	}
}

// overlaps counts the holds of one name that began before an earlier one had
// ended. Both ends lie inside of what the holder relied on, so each is a breach.
func (v *verdict) overlaps(holds []history.Record) int {
	slices.SortFunc(holds, func(a, b history.Record) int { return cmp.Compare(a.Acquired, b.Acquired) })
	n, longest := 0, 0 // the hold so far that ends last
	for i := 1; i < len(holds); i++ {
		a, b := &holds[longest], &holds[i]
		if b.Acquired < a.Released && b.Released > b.Acquired {
			n++
			v.charge("two holders of %q: %s from %d to %d, %s from %d to %d (%v together)", b.Name,
				a.Client, a.Acquired, a.Released, b.Client, b.Acquired, b.Released,
				time.Duration(min(a.Released, b.Released)-b.Acquired))
		}
		if b.Released > a.Released {
			longest = i
		}
	}
	return n
}

// gaps finds the longest time in which nobody was granted anything.
func (v *verdict) gaps(holds map[string][]history.Record, begin, end int64, r rules) {
	var at []int64
	for _, h := range holds {
		for i := range h {
			at = append(at, h[i].Acquired)
		}
	}
	slices.Sort(at)
	last := begin
	for _, t := range append(at, end) {
		v.longestGap = max(v.longestGap, time.Duration(t-last))
		last = t
	}
	if r.maxGap > 0 && v.longestGap > r.maxGap {
		v.charge("nothing was granted for %v, more than %v", v.longestGap, r.maxGap)
	}
}

// print writes the report.
func (v *verdict) print(w io.Writer) {
	overlaps := 0
	for _, name := range slices.Sorted(maps.Keys(v.names)) {
		overlaps += v.names[name]
		fmt.Fprintf(w, "overlaps of %q: %d\n", name, v.names[name])
	}
	fmt.Fprintf(w, "clients %d, names %d, grants %d (%d lost, %d with an unknown release), overlaps %d\n",
		v.clients, len(v.names), v.grants, v.lost, v.unknown, overlaps)
	fmt.Fprintf(w, "failed %d, of them %d before the end of the run, the longest in %v; the latest %v after the end\n",
		v.failed, v.failedEarly, v.longestFailed, v.longestLate)
	fmt.Fprintf(w, "longest time without a grant %v\n", v.longestGap)
	for _, n := range v.notes {
		fmt.Fprintln(w, "note: "+n)
	}
	for i, c := range v.charges {
		if i == maxCharges {
			fmt.Fprintf(w, "CONDEMNED: and %d more\n", len(v.charges)-i)
			break
		}
		fmt.Fprintln(w, "CONDEMNED: "+c)
	}
	if len(v.charges) == 0 {
		fmt.Fprintln(w, "ACQUITTED")
	}
}
