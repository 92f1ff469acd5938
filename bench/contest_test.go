package main

import (
	"slices"
	"testing"
	"time"
)

// TestJudge has stays of which every finding is known.
func TestJudge(t *testing.T) {
	fair := outcome{Stays: []stay{
		{Worker: 1, Asked: 0, Got: 30, Left: 40}, // the order is not that of time
		{Worker: 0, Asked: 0, Got: 10, Left: 20},
		{Worker: 0, Asked: 45, Got: 50, Left: 60}, // nobody waited at 40: no hand-over
	}, Refused: 35}
	got := fair.judge(2)
	if got.overlaps != 0 || !slices.Equal(got.gaps, []time.Duration{10}) || got.fair != 0.5 || got.longest != 35 || got.stall != 20 {
		t.Errorf("got %+v", got)
	}
	for name, s := range map[string][]stay{
		"inside":               {{Got: 10, Left: 100}, {Worker: 1, Got: 20, Left: 30}},
		"in a longer, earlier": {{Got: 10, Left: 100}, {Worker: 1, Got: 120, Left: 130}, {Worker: 1, Got: 125, Left: 140}},
		"past a shorter":       {{Got: 10, Left: 100}, {Worker: 1, Got: 100, Left: 110}, {Got: 50, Left: 60}},
	} {
		if got := (&outcome{Stays: s}).judge(2); got.overlaps != 1 {
			t.Errorf("%s: %d overlaps, want 1", name, got.overlaps)
		}
	}
	if got := (&outcome{Stays: []stay{{Got: 1, Left: 2}}}).judge(2); got.fair != 0 {
		t.Errorf("one of two never got it: fairness %v", got.fair)
	}
}

// TestCrew has two processes, and an implementation that
// nobody knows.
func TestCrew(t *testing.T) {
	needRedis(t)
	srv, err := startServers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.close() })
	c, err := newCrew(t.Context(), maker{name: nameRedlock}, srv.addrs, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	o, err := c.all(job{Name: "crew", Workers: 2, Count: 3, Start: now()})
	if err != nil {
		t.Fatal(err)
	}
	count := make([]int, 4)
	for _, s := range o.Stays {
		count[s.Worker]++
	}
	if f := o.judge(4); f.overlaps != 0 || f.fair != 1 || !slices.Equal(count, []int{3, 3, 3, 3}) || o.Failed > 0 {
		t.Errorf("found %+v, count %v, %d failed: %s", f, count, o.Failed, o.Err)
	}
	if _, err := newCrew(t.Context(), maker{name: "nobody"}, srv.addrs, 1); err == nil {
		t.Error("an implementation that nobody knows was opened")
	}
}
