package redlock

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Forever is for [WithWait]: wait until the context ends. It is the default.
const Forever = time.Duration(math.MaxInt64)

const (
	defaultTTL    = 10 * time.Second
	defaultPrefix = "lock:"
	minTTL        = 10 * time.Millisecond
	// longestTTL keeps sums of durations far from overflow.
	longestTTL = 10 * 365 * 24 * time.Hour
)

// Option is an argument of [New]. Every [LockOption] is one too, and sets the
// default for all calls.
type Option interface{ applyLocker(*settings) }

// LockOption is an argument of one call, or of [New] as the default.
type LockOption interface {
	Option
	applyLock(*lockSettings)
}

type lockerOption func(*settings)

func (f lockerOption) applyLocker(s *settings) { f(s) }

type lockOption func(*lockSettings)

func (f lockOption) applyLocker(s *settings)   { f(&s.lock) }
func (f lockOption) applyLock(s *lockSettings) { f(s) }

// settings are a Locker's.
type settings struct {
	maxTTL      time.Duration
	nodeTimeout time.Duration
	drift       Drift
	clock       Clock
	prefix      string
	hooks       *Hooks
	logger      *slog.Logger
	bestEffort  bool
	mutant      mutant
	lock        lockSettings
}

// lockSettings are a call's.
type lockSettings struct {
	ttl     time.Duration
	wait    time.Duration
	backoff Backoff
	renew   bool
	maxHold time.Duration // 0 = none
	minHold time.Duration
	label   string
	reentry bool
	fencing bool
	bucket  string // "" = the name's own
	err     error  // a bad argument, reported by the call
}

// WithMaxTTL sets the longest TTL that may be asked for. Default 10 s. It is
// part of the seal, so every client of a deployment sets it alike; quarantine
// lasts it plus 1 % and 2 s.
func WithMaxTTL(d time.Duration) Option {
	return lockerOption(func(s *settings) { s.maxTTL = d })
}

// WithNodeTimeout sets how long one node may take, for connecting and for each
// batch of calls. Default TTL/10, at least 5 ms and at most 250 ms.
func WithNodeTimeout(d time.Duration) Option {
	return lockerOption(func(s *settings) { s.nodeTimeout = d })
}

// WithDrift sets the bound on how far clocks run apart within one lease.
// Default 1 % of the TTL and 2 ms.
func WithDrift(d Drift) Option {
	return lockerOption(func(s *settings) { s.drift = d })
}

// WithClock sets the clock. Default: the machine's.
func WithClock(c Clock) Option {
	return lockerOption(func(s *settings) { s.clock = c })
}

// WithKeyPrefix sets what stands before the name in a lock's key. Default
// "lock:". With "" a key is the bare name, as redsync and redislock write it.
func WithKeyPrefix(prefix string) Option {
	return lockerOption(func(s *settings) { s.prefix = prefix })
}

// WithHooks sets functions that are called as things happen.
func WithHooks(h Hooks) Option {
	return lockerOption(func(s *settings) { s.hooks = &h })
}

// WithLogger sets where warnings go. Default slog.Default(). Nothing is logged
// while all is well, and at most one warning per node and 10 s when not.
func WithLogger(l *slog.Logger) Option {
	return lockerOption(func(s *settings) { s.logger = l })
}

// WithBestEffort turns quarantine and the check for eviction off: a node that
// restarted empty, was promoted or evicts keys votes at once, so two holders
// are possible after any of that. It is a mode of the seal, so clients with
// and without it do not mix.
func WithBestEffort() Option {
	return lockerOption(func(s *settings) { s.bestEffort = true })
}

// WithTTL sets how long a lease lives unless it is renewed: how fast the crash
// of a holder is noticed, not how long one may hold. Default 10 s; from 10 ms
// to the maximum (see [WithMaxTTL]); fractions of a millisecond are rounded up.
func WithTTL(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.ttl = d })
}

// WithWait bounds how long Acquire waits. 0 is one round, as TryAcquire does.
// Default [Forever]: until the context ends.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.wait = d })
}

// WithBackoff sets the pause between two rounds of one waiter where no wake-up can
// come: no quorum, a vote that callers split, no node that can be listened to. Who
// waits for a holder is woken by its release instead, and polls once a second.
// Default: [FullJitter] from 10 ms to 500 ms.
func WithBackoff(b Backoff) LockOption {
	return lockOption(func(s *lockSettings) { s.backoff = b })
}

// WithRenewal lets the lease be renewed, every third of its TTL, until Release,
// loss, max hold or Close. It is the default.
func WithRenewal() LockOption {
	return lockOption(func(s *lockSettings) { s.renew = true })
}

// WithoutRenewal lets the lease end with its TTL unless Extend is called.
func WithoutRenewal() LockOption {
	return lockOption(func(s *lockSettings) { s.renew = false })
}

// WithFencing gives every lease a number that rises from grant to grant, for the
// resource to check: [Lease.Fence]. It mostly costs no further round trip, and one
// where the nodes answered with different numbers. Nodes whose clocks are more than
// a quarter of the quarantine (max TTL · 1.01 + 2 s) from the median of all have no
// vote then; when no majority is left the error is [ErrClockSpread]. A counter per
// name stays on the nodes for 10 TTLs, at least an hour. Default: none.
//
// The numbers rise as long as the nodes keep the counters, or their clocks are wrong
// by less than half of (quarantine − 1 s).
func WithFencing() LockOption {
	return lockOption(func(s *lockSettings) { s.fencing = true })
}

// WithMaxHold ends the lease's Context (LostMaxHold) and its renewal after d.
// The key is left to its TTL, since the holder may still work, unless the
// holder releases. Default: no limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) {
		s.maxHold = d
		if d <= 0 {
			s.err = errors.Join(s.err, &ConfigError{"max hold", d.String(), "must be above zero; leave the option out for no limit"})
		}
	})
}

// WithMinHold keeps the name taken until d after the acquire even if it is
// released earlier: short jobs on hosts whose clocks differ do not run twice.
// At most the TTL. Default 0.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.minHold = d })
}

// WithLabel sets a text that Inspect shows for the holder: a host, a process, a
// job. At most 512 bytes. It is no secret, and nothing is decided by it.
func WithLabel(label string) LockOption {
	return lockOption(func(s *lockSettings) { s.label = label })
}

// defaults are the settings before any option.
func defaults() settings {
	return settings{
		drift: Drift{Rate: 0.01, Fixed: 2 * time.Millisecond}, prefix: defaultPrefix,
		lock: lockSettings{
			ttl: defaultTTL, wait: Forever, renew: true,
			backoff: FullJitter(10*time.Millisecond, 500*time.Millisecond),
		},
	}
}

// complete derives what was not set, and checks everything.
func (s *settings) complete() error {
	errs := []error{s.lock.err}
	bad := func(what, value, rule string) { errs = append(errs, &ConfigError{what, value, rule}) }
	if s.maxTTL == 0 {
		s.maxTTL = defaultTTL
	}
	s.maxTTL = ceilMillis(s.maxTTL)
	if s.maxTTL < minTTL || s.maxTTL > longestTTL {
		bad("max TTL", s.maxTTL.String(), "must be from "+minTTL.String()+" to "+longestTTL.String())
	}
	if s.nodeTimeout == 0 {
		s.nodeTimeout = max(5*time.Millisecond, min(250*time.Millisecond, s.lock.ttl/10))
	}
	if s.nodeTimeout < time.Millisecond || s.nodeTimeout > time.Minute {
		bad("node timeout", s.nodeTimeout.String(), "must be from 1ms to 1m")
	}
	if !(s.drift.Rate >= 0 && s.drift.Rate < 0.5) || s.drift.Fixed < 0 || s.drift == (Drift{}) {
		bad("drift", "", "the rate must be from 0 to below 0.5, the fixed part not below 0, and one of them above 0")
	}
	if s.clock == nil {
		s.clock = newSystemClock()
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if len(s.prefix) > 128 || !printable(s.prefix) {
		bad("key prefix", "", "must be at most 128 bytes of UTF-8 without control characters")
	}
	errs = append(errs, s.lock.check(s))
	return errors.Join(errs...)
}

// check rounds and validates a call's settings (hazard H26).
func (o *lockSettings) check(s *settings) error {
	o.ttl = ceilMillis(o.ttl)
	switch {
	case o.err != nil:
		return o.err
	case o.ttl < minTTL:
		return &ConfigError{"TTL", o.ttl.String(), "must be at least " + minTTL.String()}
	case o.ttl > s.maxTTL:
		return &ConfigError{"TTL", o.ttl.String(), "must be at most the max TTL, " + s.maxTTL.String() +
			"; raise WithMaxTTL on every client alike, or use renewal"}
	case s.drift.of(o.ttl) >= o.ttl:
		return &ConfigError{"TTL", o.ttl.String(), "is eaten up by the drift of " + s.drift.of(o.ttl).String()}
	case o.wait < 0:
		return &ConfigError{"wait", o.wait.String(), "must be 0 (one round), above it, or Forever"}
	case o.backoff == nil:
		return &ConfigError{"backoff", "nil", "give a function, FullJitter with both times above zero, or leave the option out"}
	case o.minHold < 0 || o.minHold > o.ttl:
		return &ConfigError{"min hold", o.minHold.String(), "must be from 0 to the TTL, " + o.ttl.String()}
	case len(o.bucket) > maxName || !printable(o.bucket):
		return &ConfigError{"bucket", "", fmt.Sprintf("must be at most %d bytes of UTF-8 without control characters", maxName)}
	case len(o.label) > 512 || !printable(o.label):
		return &ConfigError{"label", "", "must be at most 512 bytes of UTF-8 without control characters"}
	}
	return nil
}
