package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// names gives fresh lock names that bear the implementation's, so that what is
// left behind can be told apart.
type names struct {
	prefix string
	next   int
}

func (n *names) take(k int) []string {
	out := make([]string, k)
	for i := range out {
		n.next++
		out[i] = n.prefix + strconv.Itoa(n.next)
	}
	return out
}

// sample is what one implementation did in one block.
type sample struct {
	took   []time.Duration // of the pairs that succeeded
	failed int
	err    error // the first failure
}

// sequence runs one pair per name, one after the other.
func sequence(ctx context.Context, l locker, list []string, once bool, s *sample) {
	s.took = slices.Grow(s.took, len(list))
	for _, name := range list {
		start := time.Now()
		err := l.pair(ctx, name, once)
		took := time.Since(start)
		if err != nil {
			s.failed++
			if s.err == nil {
				s.err = err
			}
			continue
		}
		s.took = append(s.took, took)
	}
}

// micros is the p-th quantile (0 ≤ p ≤ 1) in microseconds.
func micros(took []time.Duration, p float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	i := min(int(p*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Microsecond)
}

// success is the share of pairs that succeeded.
func (s *sample) success() float64 {
	if len(s.took)+s.failed == 0 {
		return 0
	}
	return float64(len(s.took)) / float64(len(s.took)+s.failed)
}

// mallocs counts the allocations per pair of one sequence, what its stragglers
// allocate behind it included.
func mallocs(ctx context.Context, l locker, list []string) float64 {
	var before, after runtime.MemStats
	var s sample
	s.took = make([]time.Duration, 0, len(list))
	runtime.GC()
	runtime.ReadMemStats(&before)
	sequence(ctx, l, list, false, &s)
	time.Sleep(time.Millisecond)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(len(list))
}

// load is what many goroutines did at once.
type load struct {
	pairs, failed int64
	took          time.Duration
	cpu           time.Duration
	err           error
}

func (l *load) rate() float64  { return float64(l.pairs) / l.took.Seconds() }
func (l *load) cpuUS() float64 { return float64(l.cpu.Microseconds()) / float64(max(l.pairs, 1)) }
func (l *load) share() float64 { return float64(l.pairs) / float64(max(l.pairs+l.failed, 1)) }
func (l *load) String() string { return fmt.Sprintf("%d pairs, %d failed", l.pairs, l.failed) }
func cpuTime() (d time.Duration) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// parallel runs pairs on distinct names in k goroutines for d.
func parallel(ctx context.Context, l locker, k int, d time.Duration, prefix string) load {
	var out load
	var pairs, failed atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	runtime.GC()
	cpu, start := cpuTime(), time.Now()
	end := start.Add(d)
	for g := range k {
		mine := prefix + strconv.Itoa(g) + "-"
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				if err := l.pair(ctx, mine+strconv.Itoa(i), false); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
				} else {
					pairs.Add(1)
				}
			}
		})
	}
	wg.Wait()
	out.took, out.cpu = time.Since(start), cpuTime()-cpu
	out.pairs, out.failed = pairs.Load(), failed.Load()
	if err := first.Load(); err != nil {
		out.err = *err
	}
	return out
}

// contend lets k goroutines fight for one name for d, and counts how often one
// had it while another did. It says too how often it was acquired: none at all
// would prove nothing.
func contend(ctx context.Context, l locker, k int, d time.Duration, name string) (overlaps, acquired int64, err error) {
	var inside, over, got atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	fight, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for range k {
		wg.Go(func() {
			for fight.Err() == nil {
				unlock, err := l.lock(fight, name)
				if err != nil && fight.Err() != nil {
					return // what it may have left of this name, its TTL ends
				}
				if err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				if inside.Add(1) != 1 {
					over.Add(1)
				}
				got.Add(1)
				runtime.Gosched()
				inside.Add(-1)
				if err := unlock(); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if e := first.Load(); e != nil {
		err = *e
	}
	return over.Load(), got.Load(), err
}

// settled waits up to d for f to come down to want, and gives what it was last.
func settled(d time.Duration, want int, f func() int) int {
	end := time.Now().Add(d)
	for {
		n := f()
		if n <= want || time.Now().After(end) {
			return n
		}
		time.Sleep(2 * time.Millisecond)
	}
}
