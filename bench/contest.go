package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stamp is a time of CLOCK_MONOTONIC, which all processes of a machine share.
type stamp int64

func now() stamp {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return stamp(t.Nano())
}

// job is a fight for one name: workers take it, hold it, free it and think,
// again and again.
type job struct {
	Name    string        `json:"name"`
	Workers int           `json:"workers"`
	Start   stamp         `json:"start"` // when to begin
	End     stamp         `json:"end"`   // when nobody asks any more; who waits then still gets it
	Count   int           `json:"count"` // how often each takes it; 0 = until the end
	Hold    time.Duration `json:"hold"`
	Think   time.Duration `json:"think"`
}

// stay is one acquisition.
type stay struct {
	Worker int   `json:"w"`
	Asked  stamp `json:"a"`
	Got    stamp `json:"g"`
	Left   stamp `json:"l"` // just before it was freed
}

// outcome is what came of a job.
type outcome struct {
	Stays   []stay        `json:"stays"`
	Failed  int           `json:"failed"`
	Err     string        `json:"err"`     // the first failure
	Refused time.Duration `json:"refused"` // the longest wait that ended without the name
}

// patience ends a job in which nothing moves any more.
const patience = 20 * time.Second

// work does a job with one implementation in this process.
func work(ctx context.Context, l locker, j *job) *outcome {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(j.End, now())-now())+patience)
	defer cancel()
	each := make([]outcome, j.Workers)
	var wg sync.WaitGroup
	for w := range each {
		wg.Go(func() { each[w].work(ctx, l, j, w) })
	}
	wg.Wait()
	all := new(outcome)
	for i := range each {
		all.merge(&each[i])
	}
	return all
}

func (o *outcome) work(ctx context.Context, l locker, j *job, worker int) {
	time.Sleep(time.Duration(j.Start - now()))
	for ctx.Err() == nil && (j.Count == 0 || len(o.Stays) < j.Count) && (j.End == 0 || now() < j.End) {
		s := stay{Worker: worker, Asked: now()}
		unlock, err := l.lock(ctx, j.Name)
		s.Got = now()
		if err != nil {
			o.fail(err)
			o.Refused = max(o.Refused, time.Duration(s.Got-s.Asked))
			continue
		}
		if j.Hold > 0 {
			time.Sleep(j.Hold)
		} else {
			runtime.Gosched() // whoever believes to have it too shall be seen
		}
		s.Left = now()
		if err := unlock(); err != nil {
			o.fail(err)
		}
		o.Stays = append(o.Stays, s)
		if j.Think > 0 {
			time.Sleep(j.Think)
		}
	}
}

func (o *outcome) fail(err error) {
	if o.Failed++; o.Err == "" {
		o.Err = err.Error()
	}
}

func (o *outcome) merge(other *outcome) {
	o.Stays = append(o.Stays, other.Stays...)
	o.Failed += other.Failed
	o.Refused = max(o.Refused, other.Refused)
	if o.Err == "" {
		o.Err = other.Err
	}
}

// finding is what the stays at one name say.
type finding struct {
	overlaps int
	gaps     []time.Duration // from a release to the next holder, where that one waited already
	fair     float64         // the least acquisitions of a worker / the most
	longest  time.Duration   // wait
	stall    time.Duration   // the longest time in which nobody got it
}

// judge orders the stays of workers who numbered themselves from 0 to workers-1.
func (o *outcome) judge(workers int) finding {
	f := finding{longest: o.Refused}
	s := slices.Clone(o.Stays)
	slices.SortFunc(s, func(a, b stay) int { return cmp.Compare(a.Got, b.Got) })
	count := make([]int, workers)
	var left stamp // the latest so far
	for i := range s {
		count[s[i].Worker]++
		f.longest = max(f.longest, time.Duration(s[i].Got-s[i].Asked))
		if i > 0 {
			f.stall = max(f.stall, time.Duration(s[i].Got-s[i-1].Got))
			if s[i].Got < left {
				f.overlaps++
			} else if s[i].Asked <= left {
				f.gaps = append(f.gaps, time.Duration(s[i].Got-left))
			}
		}
		left = max(left, s[i].Left)
	}
	if most := slices.Max(count); most > 0 {
		f.fair = float64(slices.Min(count)) / float64(most)
	}
	return f
}
