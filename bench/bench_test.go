package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	quiet()
	goleak.VerifyTestMain(m)
}

// needRedis skips where there is no redis-server, but not in CI, where a
// skipped test would look like one that passed.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no redis-server in PATH")
	}
	t.Skip("no redis-server in PATH")
}

// tiny is enough to see that a scenario works, and too little to judge speed.
func tiny() plan {
	p := newPlan(1, 20)
	p.load, p.faulty, p.slow, p.total = 30*time.Millisecond, 20, 1, 200
	p.fight, p.handovers, p.contention = 60*time.Millisecond, 2, 40*time.Millisecond
	p.hoard = hoard{leases: 20, hold: 50 * time.Millisecond}
	p.long.hoard, p.long.queue = p.hoard, queue{waiters: 20, hold: 50 * time.Millisecond}
	p.long.siege.phase = 200 * time.Millisecond
	p.progress = io.Discard
	return p
}

// TestScenarios runs each scenario with tiny counts and checks what must hold
// however slow the machine is.
func TestScenarios(t *testing.T) {
	needRedis(t)
	for _, s := range append(scenarios(), longScenarios()...) {
		t.Run(s.id, func(t *testing.T) {
			p := tiny()
			n := s.sizes[len(s.sizes)-1]
			r, err := s.run(t.Context(), &p, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range r.Problems {
				if strings.HasPrefix(text, nameRedlock) {
					t.Error(text)
				} else {
					t.Log(text)
				}
			}
			metrics := []string{mSuccess, mKeys}
			switch {
			case s.id == "S0":
				metrics = nil
			case s.id == "L2":
				metrics = []string{mLost} // on a busy machine a waiter may be late between asking and being in line
			case s.id == "L3":
				metrics = []string{mTaken}
			case s.id == "S8", s.id == "L1":
				metrics = []string{mLost, mKeys}
			case strings.HasPrefix(s.id, "S3"):
				metrics = []string{mCommands, mKeys}
			}
			for _, metric := range metrics {
				v := r.Values[metric][nameRedlock]
				if len(v) == 0 {
					t.Errorf("%s was not measured", metric)
				}
				for _, v := range v {
					if metric == mSuccess && v != 1 || metric != mSuccess && metric != mCommands && metric != mTaken && v != 0 {
						t.Errorf("%s = %v", metric, v)
					}
				}
			}
			for _, target := range targets() {
				if target.scenario != s.id || target.n != n {
					continue
				}
				if _, ok := target.hold(r); !ok {
					t.Errorf("nothing to hold against the target for %s × %s", target.metric, target.of)
				}
			}
		})
	}
}

// TestProgram runs the program as make does, and reads its table.
func TestProgram(t *testing.T) {
	needRedis(t)
	var out, progress bytes.Buffer
	file := filepath.Join(t.TempDir(), "out.json")
	args := []string{"-rounds", "1", "-n", "20", "-run", "^S1$", "-json", file}
	if code := run(t.Context(), args, &out, &progress); code != 0 {
		t.Fatalf("status %d\n%s%s", code, &out, &progress)
	}
	for _, want := range []string{"allocs/pair", "× redsync", "≤ 0.70", "targets missed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte(`"p50 µs"`)) {
		t.Errorf("%v: %.200s", err, text)
	}
	if code := run(t.Context(), []string{"-rounds", "0"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("no rounds: status %d", code)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(ended, nil, io.Discard, io.Discard); code != 1 {
		t.Errorf("interrupted: status %d", code)
	}
}

func TestTargets(t *testing.T) {
	for name, c := range map[string]struct {
		t          target
		mine, ref  []float64
		want       float64
		reached    bool
		unmeasured bool
	}{
		"within 5 %":              {t: target{metric: mP50, of: nameFloor, limit: 1}, mine: []float64{104, 90, 210}, ref: []float64{100, 100, 100}, want: 1.04, reached: true},
		"over 5 %":                {t: target{metric: mP50, of: nameFloor, limit: 1}, mine: []float64{106}, ref: []float64{100}, want: 1.06},
		"round by round":          {t: target{metric: mP50, of: nameFloor, limit: 1}, mine: []float64{10, 100, 1000}, ref: []float64{20, 100, 500}, want: 1, reached: true},
		"at least":                {t: target{metric: mRate, of: nameFloor, limit: 7, atLeast: true}, mine: []float64{67}, ref: []float64{10}, want: 6.7, reached: true},
		"not at least":            {t: target{metric: mRate, of: nameFloor, limit: 7, atLeast: true}, mine: []float64{66}, ref: []float64{10}, want: 6.6},
		"absolute":                {t: target{metric: mAllocs, limit: 20}, mine: []float64{21}, want: 21, reached: true},
		"one key is too many":     {t: target{metric: mKeys, limit: 0}, mine: []float64{0, 0, 1}, want: 0},
		"no key":                  {t: target{metric: mKeys, limit: 0}, mine: []float64{0, 0}, want: 0, reached: true},
		"one failure is too many": {t: target{metric: mSuccess, limit: 1, atLeast: true}, mine: []float64{1, 0.99, 1}, want: 1},
		"no floor":                {t: target{metric: mP50, of: nameFloor, limit: 1}, mine: []float64{1}, unmeasured: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecord("", 1)
			for _, v := range c.mine {
				r.add(c.t.metric, nameRedlock, v)
			}
			for _, v := range c.ref {
				r.add(c.t.metric, c.t.of, v)
			}
			got, ok := c.t.hold(r)
			if ok == c.unmeasured {
				t.Fatalf("measured: %v", ok)
			}
			if ok && (math.Abs(got.median-c.want) > 1e-9 || got.reached != c.reached) {
				t.Errorf("got %+v, want %v, reached %v", got, c.want, c.reached)
			}
		})
	}
}

// TestOverlapIsSeen has a lock that locks nothing: the check must notice.
func TestOverlapIsSeen(t *testing.T) {
	p := tiny()
	r := newRecord("S1", 1)
	checkOverlap(t.Context(), &p, r, maker{name: "none"}, noLock{})
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "overlaps") {
		t.Errorf("problems: %q", r.Problems)
	}
}

type noLock struct{}

func (noLock) pair(context.Context, string, bool) error { return nil }
func (noLock) close()                                   {}
func (noLock) lock(context.Context, string) (func() error, error) {
	return func() error { return nil }, nil
}
