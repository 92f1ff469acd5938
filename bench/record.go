package main

import (
	"fmt"
	"slices"
)

// record is what one scenario gave at one number of nodes.
type record struct {
	Scenario string `json:"scenario"`
	N        int    `json:"n"`
	// Values has, per metric and implementation, one value per round.
	Values   map[string]map[string][]float64 `json:"values"`
	Problems []string                        `json:"problems,omitempty"`
}

func newRecord(scenario string, n int) *record {
	return &record{Scenario: scenario, N: n, Values: make(map[string]map[string][]float64)}
}

func (r *record) add(metric, impl string, v float64) {
	if r.Values[metric] == nil {
		r.Values[metric] = make(map[string][]float64)
	}
	r.Values[metric][impl] = append(r.Values[metric][impl], v)
}

func (r *record) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.Problems, text) {
		r.Problems = append(r.Problems, text)
	}
}

// The metrics.
const (
	mP50       = "p50 µs"
	mP99       = "p99 µs"
	mAllocs    = "allocs/pair"
	mRate      = "pairs/s"
	mCPU       = "cpu µs/pair"
	mSuccess   = "success"
	mFirst     = "first pair µs"
	mP50Fit    = "p50 µs, all well"
	mP99Fit    = "p99 µs, all well"
	mGap       = "hand-over p50 µs"
	mGap99     = "hand-over p99 µs"
	mFair      = "fairness"
	mLongest   = "longest wait ms"
	mTaken     = "acquisitions/s"
	mCommands  = "commands/acquisition"
	mChecks    = "checks/acquisition"
	mTrip      = "round trip µs"
	mHop       = "goroutine hop µs"
	mNoise     = "floor/floor p50"
	mCPUShare  = "cpu % of a core"
	mScripts   = "scripts/s"
	mExtends   = "scripts/lease, node, TTL/3"
	mHeldGo    = "goroutines, all"
	mMemory    = "bytes/lease"
	mReleased  = "released in ms"
	mLost      = "leases lost"
	mOvertaken = "waiters overtaken"
	mStall     = "longest stall ms"
	mGrown     = "goroutines grown"
	mKeys      = "keys left"
)

// target is one bar of the project's.
type target struct {
	scenario string
	n        int
	metric   string
	// The value is divided by what `of` had in the same round, of the same
	// metric or of another one; "" = taken as it is.
	of, ofMetric string
	limit        float64
	atLeast      bool
}

// slack is how far the median may be off a target that counts as reached.
const slack = 0.05

// fullRounds is how many rounds it takes to call a target reached.
const fullRounds = 7

// targets are the bars, in the order of the table.
func targets() []target {
	var all []target
	add := func(t ...target) { all = append(all, t...) }
	for i, n := range []int{1, 3, 5} {
		pick := func(v ...float64) float64 { return v[i] }
		add(
			target{scenario: "S1", n: n, metric: mP50, of: nameFloor, limit: pick(1.05, 1.05, 1.0)},
			target{scenario: "S1", n: n, metric: mP50, of: nameRedsync, limit: pick(0.5, 0.7, 0.6)},
			target{scenario: "S1", n: n, metric: mAllocs, limit: pick(20, 50, 80)},
		)
	}
	for i, n := range []int{1, 3, 5} {
		pick := func(v ...float64) float64 { return v[i] }
		add(
			target{scenario: "S2", n: n, metric: mRate, of: nameFloor, limit: pick(2.7, 7, 8), atLeast: true},
			target{scenario: "S2", n: n, metric: mRate, of: nameRedsync, limit: pick(4, 7, 9), atLeast: true},
			target{scenario: "S2", n: n, metric: mCPU, of: nameFloor, limit: pick(0.3, 0.15, 0.15)},
		)
	}
	all = append(all, waitingTargets()...)
	add(
		target{scenario: "S4", n: 5, metric: mP50, of: nameFloor, limit: 1.05},
		target{scenario: "S4", n: 5, metric: mP99, of: nameRedlock, ofMetric: mP99Fit, limit: 1.3},
		target{scenario: "S4", n: 5, metric: mGrown, limit: 10},
		target{scenario: "S4", n: 5, metric: mKeys, limit: 0},
		target{scenario: "S4", n: 5, metric: mSuccess, limit: 1, atLeast: true},
		target{scenario: "S5", n: 5, metric: mP50, of: nameFloor, limit: 0.8},
		target{scenario: "S5", n: 5, metric: mFirst, of: nameFloor, limit: 0.8},
		target{scenario: "S5", n: 5, metric: mSuccess, limit: 1, atLeast: true},
		target{scenario: "S6", n: 5, metric: mP50, of: nameFloor, limit: 1.1},
		target{scenario: "S6", n: 5, metric: mKeys, limit: 0},
		target{scenario: "S7", n: 5, metric: mKeys, limit: 0},
		target{scenario: "S7", n: 5, metric: mGrown, limit: 0},
	)
	return append(all, keepTargets()...)
}

// keepTargets are those of leases that are kept.
func keepTargets() (all []target) {
	for _, n := range []int{1, 3, 5} {
		all = append(all,
			target{scenario: "S8", n: n, metric: mLost, limit: 0},
			target{scenario: "S8", n: n, metric: mExtends, limit: 1},
			target{scenario: "S8", n: n, metric: mCPUShare, limit: 0.5},
			target{scenario: "S8", n: n, metric: mHeldGo, limit: 8 + 4*float64(n)},
			target{scenario: "S8", n: n, metric: mMemory, limit: 512},
		)
	}
	return append(all,
		target{scenario: "L1", n: 5, metric: mLost, limit: 0},
		target{scenario: "L1", n: 5, metric: mHeldGo, limit: 28},
		target{scenario: "L1", n: 5, metric: mCPUShare, limit: 10},
		target{scenario: "L1", n: 5, metric: mReleased, limit: 2000},
		target{scenario: "L2", n: 5, metric: mLost, limit: 0},
		target{scenario: "L2", n: 5, metric: mOvertaken, limit: 0},
		target{scenario: "L2", n: 5, metric: mGap, limit: 1000},
		target{scenario: "L3", n: 5, metric: mStall, limit: 1500},
		target{scenario: "L3", n: 5, metric: mFair, limit: 0.8, atLeast: true},
	)
}

// waitingTargets are those of the scenarios in which callers wait.
func waitingTargets() (all []target) {
	for _, n := range []int{1, 3, 5} {
		commands := float64(n)
		all = append(all,
			target{scenario: "S3", n: n, metric: mFair, limit: 0.8, atLeast: true},
			target{scenario: "S3", n: n, metric: mLongest, limit: 250},
			target{scenario: "S3c", n: n, metric: mGap, of: nameFloor, limit: 0.15},
			target{scenario: "S3c", n: n, metric: mCommands, limit: 2*commands + 1},
			target{scenario: "S3d", n: n, metric: mGap, of: nameFloor, limit: 0.7},
			target{scenario: "S3d", n: n, metric: mGap, of: nameRedsync, limit: 0.2},
			target{scenario: "S3d", n: n, metric: mCommands, limit: 3.5 * commands},
			target{scenario: "S3e", n: n, metric: mGap, limit: 1000},
			target{scenario: "S3e", n: n, metric: mGap99, limit: 5000},
			target{scenario: "S3e", n: n, metric: mCommands, limit: 6*commands + 1},
		)
	}
	return all
}

// result is a target held against what was measured.
type result struct {
	rounds           int
	median, min, max float64
	reached          bool
}

// hold compares; ok is false where nothing was measured.
func (t target) hold(r *record) (out result, ok bool) {
	mine := r.Values[t.metric][nameRedlock]
	if t.of != "" {
		metric := t.ofMetric
		if metric == "" {
			metric = t.metric
		}
		mine = ratios(mine, r.Values[metric][t.of])
	}
	if len(mine) == 0 {
		return out, false
	}
	out = result{rounds: len(mine), median: median(mine), min: slices.Min(mine), max: slices.Max(mine)}
	switch {
	case t.exact():
		// A count of what must not be: one bad round is one too many.
		out.reached = t.atLeast && out.min >= t.limit || !t.atLeast && out.max <= t.limit
	case t.atLeast:
		out.reached = out.median >= t.limit*(1-slack)
	default:
		out.reached = out.median <= t.limit*(1+slack)
	}
	return out, true
}

// exact says that the target is a count that no round may miss.
func (t target) exact() bool {
	return t.metric == mKeys || t.metric == mLost || t.metric == mOvertaken || t.metric == mGrown || t.metric == mSuccess
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
