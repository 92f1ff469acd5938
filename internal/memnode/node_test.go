package memnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/seam"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that only the test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

// bench is a node with one session on a clock of the test.
type bench struct {
	*Node
	*clock
	t *testing.T
	s *Session
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c := &clock{time.Unix(1_700_000_000, 0)}
	n := New("n", c.now)
	return &bench{n, c, t, n.NewSession()}
}

// do runs one call.
func (b *bench) do(c seam.Call) seam.Reply {
	b.t.Helper()
	r := make([]seam.Reply, 1)
	require.NoError(b.t, b.Exec(b.s, []seam.Call{c}, r))
	return r[0]
}

func (b *bench) hello() seam.Reply {
	b.t.Helper()
	r := b.do(seam.Call{Op: seam.Hello, SealKey: "seal", QuarantineKey: "quarantine"})
	require.Equal(b.t, seam.OK, r.Code)
	return r
}

// stands demands a key with a value and the ms it has yet, -1 for no TTL.
func (b *bench) stands(key, value string, ms int64) {
	b.t.Helper()
	v, ttl, ok := b.Get(key)
	require.True(b.t, ok, "%s is not there", key)
	require.Equal(b.t, value, v)
	require.Equal(b.t, pttlOf(ms), ttl)
}

func (b *bench) absent(key string) {
	b.t.Helper()
	_, _, ok := b.Get(key)
	require.False(b.t, ok, "%s is there", key)
}

func acquire(key, token string, ttl time.Duration) seam.Call {
	return seam.Call{Op: seam.Acquire, Key: key, Token: token, TTL: ttl}
}

func TestExpiryIsByTheNodesClock(t *testing.T) {
	b := newBench(t)
	require.Equal(t, seam.OK, b.do(acquire("k", "a", time.Second)).Code)
	b.advance(time.Second)
	b.stands("k", "a", 0)
	require.Equal(t, seam.Held, b.do(acquire("k", "b", time.Second)).Code)
	b.advance(time.Millisecond)
	b.absent("k")
	require.Empty(t, b.Keys())
	require.Equal(t, pttlOf(-2), b.do(seam.Call{Op: seam.Probe, Key: "k"}).TTL)
	require.Equal(t, seam.OK, b.do(acquire("k", "b", 1500*time.Microsecond)).Code)
	b.stands("k", "b", 1)
}

func TestSkewAndStepMoveExpiry(t *testing.T) {
	b := newBench(t)
	b.SkewClock(0, 2)
	b.Put("fast", "v", 10*time.Second)
	b.advance(4 * time.Second)
	b.stands("fast", "v", 2000)
	b.advance(2 * time.Second)
	b.absent("fast")

	b.SkewClock(time.Hour, 1)
	require.Equal(t, b.clock.now().Add(time.Hour).UnixMicro(), b.hello().Facts.Time)
	b.Put("k", "v", time.Minute)
	b.StepClock(-10 * time.Second)
	b.stands("k", "v", 70_000)
	b.StepClock(71 * time.Second)
	b.absent("k")
	require.Equal(t, b.clock.now().Add(time.Hour+61*time.Second).UnixMicro(), b.hello().Facts.Time)
}

func TestStepKeepsTheRate(t *testing.T) {
	b := newBench(t)
	start := b.clock.now()
	b.SkewClock(0, 0.5)
	b.advance(10 * time.Second)
	b.StepClock(time.Second)
	b.advance(10 * time.Second)
	require.Equal(t, start.Add(11*time.Second).UnixMicro(), b.hello().Facts.Time)
}

// A clock that moves while a call runs must not let it see two times: with an
// extend that finds the key and then no key, "mine" would be said of nothing.
func TestOneCallIsOneMoment(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	moving := false
	n := New("n", func() time.Time {
		if moving {
			c.advance(6 * time.Millisecond)
		}
		return c.t
	})
	n.Put("k", "a", 10*time.Millisecond)
	moving = true
	r := make([]seam.Reply, 1)
	require.NoError(t, n.Exec(n.NewSession(), []seam.Call{{Op: seam.Extend, Key: "k", Token: "a", TTL: time.Second}}, r))
	require.Equal(t, seam.Mine, r[0].Code)
	moving = false
	_, ttl, ok := n.Get("k")
	require.True(t, ok)
	require.Equal(t, time.Second, ttl)
}

func TestHelloFillsTheFacts(t *testing.T) {
	b := newBench(t)
	b.SetMaxMemory(1<<20, "allkeys-lru")
	b.Put("seal", "s1", 0)
	b.Put("quarantine", "1", 3*time.Second)
	b.advance(42 * time.Second)
	b.Put("quarantine", "1", 3*time.Second)
	r := b.hello()
	require.Equal(t, "s1", r.Seal)
	require.True(t, r.Quarantined)
	require.Equal(t, 3*time.Second, r.QuarantineTTL)
	require.True(t, r.Master)
	require.Equal(t, b.Replid(), r.Replid)
	require.Regexp(t, "^[0-9a-f]{40}$", r.Replid)
	f := r.Facts
	require.Regexp(t, "^[0-9a-f]{40}$", f.RunID)
	require.NotEqual(t, r.Replid, f.RunID)
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, f.Addr)
	f.Addr = ""
	require.Equal(t, &seam.Facts{
		ClientID: 1, RunID: b.RunID(), Version: "7.0.15", Mode: "standalone", Time: b.clock.now().UnixMicro(),
		MaxMemory: 1 << 20, Policy: "allkeys-lru", AOF: true, MinReplicas: -1, UptimeSecond: 42,
	}, f)
}

func TestIDsAreTheSameInEveryRun(t *testing.T) {
	a, b, other := New("n", nil), New("n", nil), New("m", nil)
	require.Equal(t, a.RunID(), b.RunID())
	require.Equal(t, a.Replid(), b.Replid())
	require.NotEqual(t, a.RunID(), other.RunID())
	require.NotEqual(t, a.Replid(), other.Replid())
}
