package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// big is a run of 100,000 operations, and too much of everything else.
func big(names int) Run {
	const ops = 100_000
	r := Run{Title: "big", Nodes: 1000, Clients: 200, TTL: time.Second}
	next := make([]time.Duration, names)
	for n := 0; len(r.Ops) < ops; n++ {
		i := n % names
		next[i] += 10 * ms
		r.Ops = append(r.Ops, lock(fmt.Sprintf("client-%d", n%200), fmt.Sprintf("name-%d", i), n, next[i], next[i]+5*ms, false)...)
		next[i] += 5 * ms
	}
	for i := range 5000 {
		at := time.Duration(i) * 10 * ms
		r.Faults = append(r.Faults, Fault{i%1500 - 1, fmt.Sprintf("target-%d", i), "kill", at, at + time.Duration(i%7)*100*ms})
		r.Latency = append(r.Latency, Latency{Name: "x"})
	}
	r.Verdict = judge.Verdict{Ops: len(r.Ops), Grants: len(r.Ops) / 2, Names: names, Clients: 200}
	for i := range 5000 {
		r.Verdict.Violations = append(r.Verdict.Violations, judge.Violation{
			Rule: judge.RuleOverlap, Name: r.Ops[i].Name, At: r.Ops[i].End, Ops: r.Ops[i : i+50], Text: strings.Repeat("long ", 1000),
		})
	}
	return r
}

func TestBounds(t *testing.T) {
	for _, names := range []int{1, 5000} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			r := big(names)
			var b bytes.Buffer
			start := time.Now()
			if err := Write(&b, r); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 30*time.Second { // half a second on an idle machine; what grows with the square takes minutes
				t.Errorf("took %v", took)
			}
			out := b.String()
			wellFormed(t, out)
			if len(out) > 4<<20 {
				t.Errorf("a page of %d bytes", len(out))
			}
			for what, most := range map[string]int{
				`class="hold `: maxBars + maxViolations*maxOps + maxLanes, `class="band"`: maxBands + 1,
				`class="mark"`: maxViolations + 1, `<li id="v`: maxViolations, `class="track"`: maxLanes + maxNodeLanes,
				"<tr>": maxFaultRows + maxLatency + 2, "<option": maxLegend + 6,
			} {
				if n := strings.Count(out, what); n > most || n < 5 && names > 1 {
					t.Errorf("%d of %s, want some, and at most %d", n, what, most)
				}
			}
			for _, said := range []string{
				"Of 5,000 violations the first 200", "faults the 600 longest are drawn", "and 4800 more", "and 4700 more", "and 4900 more",
				"and 152 more clients", "colours repeat",
			} {
				if !strings.Contains(out, said) {
					t.Errorf("the page does not say %q", said)
				}
			}
			thinned := regexp.MustCompile(`Thinned out: of [\d,]+ intervals [\d,]+ are drawn`).MatchString(out)
			if want := names < 5000; thinned != want {
				t.Errorf("says that it is thinned out: %v, want %v", thinned, want)
			}
		})
	}
}

// What is thinned out must keep what a reader looks for.
func TestThin(t *testing.T) {
	r := Run{To: 10 * time.Second}
	for n := range 9000 {
		at := time.Duration(n) * ms
		r.Ops = append(r.Ops, lock("c", "n", n, at, at+ms/2, false)...)
	}
	r.Ops = append(r.Ops, lock("long", "n", 9000, 9500*ms, 9900*ms, false)...)
	// One that is in a violation and shorter than those around it.
	victim := lock("victim", "n", 9001, 4500*ms, 4500*ms+1, false)
	r.Ops = append(r.Ops, victim...)
	r.Verdict.Violations = []judge.Violation{{Rule: "r", Name: "n", At: 4500 * ms, Ops: victim}}
	out := write(t, r)
	for _, who := range []string{"long held n", "victim held n"} {
		if !strings.Contains(out, who) {
			t.Errorf("%q has been thinned out", who)
		}
	}
	if n := strings.Count(out, `class="hold `); n < maxBars/2 || n > maxBars+1 {
		t.Errorf("%d bars, want not far from %d", n, maxBars)
	}
}

// What is drawn is what was judged: the same overlaps are in both.
func TestHoldsAsJudge(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		ops := random(seed, 60)
		overlaps := 0
		for _, hs := range holds(ops) {
			far := time.Duration(-1)
			for _, h := range hs {
				if h.to <= h.from {
					continue
				}
				if h.from < far {
					overlaps++
				}
				far = max(far, h.to)
			}
		}
		want := judge.Overlaps(ops)
		found += len(want)
		if overlaps != len(want) {
			t.Errorf("seed %d: %d overlaps, judge has %d", seed, overlaps, len(want))
		}
		for _, v := range want {
			has := false
			for _, h := range holds(ops)[v.Name] {
				span := fmt.Sprintf("%s (token %s) held %q from %v to %v,", h.client, h.token.token, h.name, h.from, h.to)
				has = has || strings.Contains(v.Text, span)
			}
			if !has {
				t.Errorf("seed %d: no interval drawn is one of: %v", seed, v)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d overlaps in all histories", found)
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{short(1234567), "1.23ms"},
		{short(456789), "457µs"},
		{short(83456 * ms), "1m23.5s"},
		{short(3723 * time.Second), "1h2m3s"},
		{short(2 * time.Hour), "2h"},
		{short(0), "0s"},
		{exact(1234567), "1.235ms"},
		{exact(10 * time.Minute), "10m"},
		{exact(10 * time.Second), "10s"},
		{number(-1234567), "-1,234,567"},
		{number(-123), "-123"},
		{number(999), "999"},
		{count(1, "grant", "grants"), "1 grant"},
		{count(0, "grant", "grants"), "0 grants"},
		{clean("a\nb", 9), `a\nb`},
		{clean("größer", 4), "größ…"},
		{clean("größer", 6), "größer"},
		{clean("\xff", 9), `\xff`},
		{pct(0.5), "50%"},
		{pct(0), "0%"},
		{pct(1), "100%"},
		{pct(0.123456), "12.346%"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"c2", "c10", -1},
		{"c10", "c2", 1},
		{"c1", "c1", 0},
		{"c01", "c1", 1},
		{"a", "b1", -1},
		{"c", "c1", -1},
		{"c1x2", "c1x10", -1},
		{"", "", 0},
	} {
		if got := natural(c.a, c.b); got != c.want {
			t.Errorf("natural(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, to := range []time.Duration{1, 7, ms, time.Second, 97 * time.Second, 26 * time.Hour, 1<<63 - 1} {
		a := axis{0, to}
		coarse := 0
		for _, k := range a.ticks() {
			if !k.Fine {
				coarse++
			}
		}
		if n := len(a.ticks()); coarse < 2 || coarse > 10 || n > 60 {
			t.Errorf("%v: %d ticks, %d of them coarse", to, n, coarse)
		}
	}
}
