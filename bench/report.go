package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// printTable is the one table: a line per target, and lines without a target
// for what else was measured.
func printTable(w io.Writer, p *plan, records []*record) (missed int) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"", "N", "metric"}
	for _, m := range p.makers {
		head = append(head, m.name)
	}
	head = append(head, "against", "measured", "min..max", "target", "reached")
	_, _ = fmt.Fprintln(tw, strings.Join(head, "\t"))
	for _, r := range records {
		for _, line := range tableLines(p, r, &missed) {
			_, _ = fmt.Fprintln(tw, strings.Join(line, "\t"))
		}
	}
	_ = tw.Flush()
	return missed
}

// shown are the metrics in the order of the table.
func shown() []string {
	return []string{
		mTrip, mHop, mNoise, mP50, mP50Fit, mP99, mP99Fit, mFirst, mAllocs, mRate, mCPU, mGap, mGap99, mFair, mLongest, mStall, mOvertaken, mTaken, mCommands, mChecks, mScripts,
		mExtends, mCPUShare, mHeldGo, mMemory, mReleased, mLost, mSuccess, mGrown, mKeys,
	}
}

func tableLines(p *plan, r *record, missed *int) (lines [][]string) {
	for _, metric := range shown() {
		if r.Values[metric] == nil {
			continue
		}
		cells := []string{r.Scenario, strconv.Itoa(r.N), metric}
		for _, m := range p.makers {
			cells = append(cells, absolute(metric, r.Values[metric][m.name]))
		}
		bare := true
		for _, t := range targets() {
			if t.scenario != r.Scenario || t.n != r.N || t.metric != metric {
				continue
			}
			got, ok := t.hold(r)
			if !ok {
				continue
			}
			if !got.reached {
				*missed++
			}
			lines = append(lines, append(slices.Clone(cells), t.cells(got)...))
			bare = false
			for i := 2; i < len(cells); i++ {
				cells[i] = "" // said once is enough
			}
			cells[2] = "  ″"
		}
		if bare {
			lines = append(lines, append(cells, "", "", "", "", ""))
		}
	}
	return lines
}

// absolute is the median over the rounds of one implementation, or, of what
// must not be, the worst of them.
func absolute(metric string, v []float64) string {
	switch {
	case len(v) == 0:
		return "–"
	case metric == mKeys, metric == mGrown, metric == mLost, metric == mOvertaken:
		return number(slices.Max(v))
	case metric == mSuccess:
		return percent(slices.Min(v))
	}
	return number(median(v))
}

// cells are the columns from "against" on.
func (t target) cells(got result) []string {
	against, sign, show := "", "≤ ", number
	switch {
	case t.ofMetric != "":
		against = "× " + t.ofMetric
	case t.of != "":
		against = "× " + t.of
	}
	if t.atLeast {
		sign = "≥ "
	}
	if t.metric == mSuccess {
		show = percent
	}
	measured := show(got.median)
	if t.exact() {
		measured = show(got.max)
		if t.atLeast {
			measured = show(got.min)
		}
	}
	reached := "no"
	switch {
	case got.reached && got.rounds < fullRounds && !t.exact():
		reached = fmt.Sprintf("yes (%d rounds)", got.rounds)
	case got.reached:
		reached = "yes"
	}
	return []string{against, measured, show(got.min) + ".." + show(got.max), sign + show(t.limit), reached}
}

func percent(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + " %" }

// number has three digits, and all those before the point.
func number(v float64) string {
	switch {
	case v == float64(int64(v)), v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// problems prints what was not as it must be, whoever did it, and counts what
// concerns this library.
func problems(w io.Writer, records []*record) (ours int) {
	for _, r := range records {
		for _, text := range r.Problems {
			_, _ = fmt.Fprintf(w, "%s N=%d: %s\n", r.Scenario, r.N, text)
			if strings.HasPrefix(text, nameRedlock+":") || strings.HasPrefix(text, nameRedlock+" under") {
				ours++
			}
		}
	}
	return ours
}

// output is the JSON file.
type output struct {
	Go      string    `json:"go"`
	CPUs    int       `json:"cpus"`
	Rounds  int       `json:"rounds"`
	Records []*record `json:"records"`
}

func writeJSON(path string, p *plan, records []*record) error {
	text, err := json.MarshalIndent(output{runtime.Version(), runtime.NumCPU(), p.rounds, records}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
