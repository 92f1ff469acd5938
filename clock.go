package redlock

import (
	"math"
	"sync/atomic"
	"time"
)

// Clock is where a Locker has its time from. The default is the machine's own.
// Another one serves tests and simulations: the hazard of this lock is that
// clocks disagree, so each Locker has its own.
//
// A Clock may also have Instant() (mono, boot, wall time.Duration): readings of
// a clock that stops in suspend, of one that does not, and of the wall clock,
// each since any fixed origin. Without it Now serves as all three.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own after d; stop reports
	// whether it kept f from being called.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Drift bounds how far the clocks of two machines run apart within one lease:
// a share of the TTL, for their rates, and a fixed part, for the milliseconds
// in which Redis counts. The zero Drift is refused by New; the default is 1 %
// and 2 ms, as in the Redis documentation of the algorithm.
type Drift struct {
	Rate  float64 // share of the TTL, 0 ≤ Rate < 0.5
	Fixed time.Duration
}

// of is the margin that a lease of the given TTL loses to drift.
func (d Drift) of(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl)*d.Rate)) + d.Fixed
}

// instant is one moment on the three clocks of a machine (hazard H23): Go's
// monotonic clock stops in suspend, CLOCK_BOOTTIME stops in a VM snapshot, the
// wall clock steps. No one of them can be trusted to bound a lease.
type instant struct{ mono, boot, wall time.Duration }

// since is the time from a to now for what must end in time: the largest of
// the three, which also ignores a wall clock that stepped backwards.
func (now instant) since(a instant) time.Duration {
	return max(now.mono-a.mono, now.boot-a.boot, now.wall-a.wall)
}

// waited is the time from a to now for what must not end too early: the
// smallest of the three.
func (now instant) waited(a instant) time.Duration {
	return min(now.mono-a.mono, now.boot-a.boot, now.wall-a.wall)
}

// moment is an instant together with the time.Time that a caller is shown.
type moment struct {
	instant
	at time.Time
}

// instanter is the optional part of a Clock.
type instanter interface {
	Instant() (mono, boot, wall time.Duration)
}

// read takes all readings of a clock.
func read(c Clock) moment {
	if s, ok := c.(*systemClock); ok {
		return s.read()
	}
	now := c.Now()
	if i, ok := c.(instanter); ok {
		mono, boot, wall := i.Instant()
		return moment{instant{mono, boot, wall}, now}
	}
	wall := time.Duration(now.UnixNano())
	return moment{instant{wall, wall, wall}, now}
}

// validity is how long a holder may rely on its lease: a length from the moment
// before the first byte of the round that confirmed it was sent (hazard H25),
// and never from the moment of an answer.
type validity struct {
	from   moment
	length time.Duration
}

// validFrom is the validity that a majority gives when it confirms a TTL in a
// round that began at from: T0 + ttl − drift.
func validFrom(from moment, ttl time.Duration, d Drift) validity {
	return validity{from: from, length: ttl - d.of(ttl)}
}

// left is what remains of it; zero or less when it has ended.
func (v validity) left(now instant) time.Duration { return v.length - now.since(v.from.instant) }

// until is the end on the clock that callers see.
func (v validity) until() time.Time { return v.from.at.Add(v.length) }

// extended is the later of two validities: an extension never shortens
// (promise P9).
func (v validity) extended(by validity) validity {
	if v.left(by.from.instant) > by.length {
		return v
	}
	return by
}

// margin is how much before the end of the validity a Lease.Context is done, so
// that a timer which fires a little late still fires in time (promise P6).
func margin(ttl time.Duration) time.Duration {
	return max(5*time.Millisecond, min(ttl/50, 50*time.Millisecond))
}

// quarantineFor is Q: how long a node abstains that may have forgotten leases
// of up to maxTTL (design section 5). Every key that it lost has expired by
// then, also on clocks that drift, and whole seconds of rounding are in it.
func quarantineFor(maxTTL time.Duration) time.Duration {
	return maxTTL + maxTTL/100 + 2*time.Second
}

// ceilMillis rounds up to the milliseconds that Redis counts in.
func ceilMillis(d time.Duration) time.Duration {
	if d > longestTTL {
		return d // refused anyway; the sum below might overflow
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// start reads a clock for the beginning of a validity. The machine's own need
// not be asked for CLOCK_BOOTTIME then, which costs a system call: a reading
// that is too early only makes the validity end sooner, and the offset that was
// read last is that, or right.
func start(c Clock) moment {
	s, ok := c.(*systemClock)
	if !ok {
		return read(c)
	}
	now := time.Now()
	mono := now.Sub(s.origin)
	return moment{instant{mono, mono + time.Duration(s.ahead.Load()), time.Duration(now.UnixNano())}, now}
}

// systemClock is the machine's clock.
type systemClock struct {
	origin time.Time
	ahead  atomic.Int64 // of the boot clock over the monotonic one, when it was read last
}

func newSystemClock() *systemClock {
	s := &systemClock{origin: time.Now()}
	s.read()
	return s
}

func (*systemClock) Now() time.Time { return time.Now() }

func (*systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// read takes the three clocks. In a synctest bubble package time is virtual
// while CLOCK_BOOTTIME is real: the latter then runs slower than both others,
// so since does not see it, and waited is only more careful.
func (c *systemClock) read() moment {
	now := time.Now()
	mono := now.Sub(c.origin)
	boot := bootTime(mono)
	// The two are read one after the other: the least distance is the truest,
	// and only a suspend makes it much larger.
	if ahead, was := int64(boot-mono), c.ahead.Load(); ahead < was || ahead > was+int64(time.Millisecond) {
		c.ahead.Store(ahead)
	}
	return moment{instant{mono, boot, time.Duration(now.UnixNano())}, now}
}
