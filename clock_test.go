package redlock

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func at(mono, boot, wall time.Duration) instant { return instant{mono, boot, wall} }

// What must end in time trusts the clock that went furthest; what must not end
// too early trusts the one that went least (hazard H23).
func TestInstantElapsed(t *testing.T) {
	h, s := time.Hour, time.Second
	for _, c := range []struct {
		name          string
		then, now     instant
		since, waited time.Duration
	}{
		{"all agree", at(0, 0, 0), at(s, s, s), s, s},
		{"suspended: the monotonic clock stood still", at(0, 0, 0), at(s, h, h), h, s},
		{"a VM snapshot: only the wall clock knows", at(0, 0, 0), at(s, s, h), h, s},
		{"the wall clock stepped back", at(0, 0, h), at(s, s, 0), s, -h},
		{"the wall clock stepped forward", at(0, 0, 0), at(s, s, h+s), h + s, s},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.since, c.now.since(c.then))
			require.Equal(t, c.waited, c.now.waited(c.then))
		})
	}
}

func TestDriftAndValidity(t *testing.T) {
	d := Drift{Rate: 0.01, Fixed: 2 * time.Millisecond}
	require.Equal(t, 102*time.Millisecond, d.of(10*time.Second))
	require.Equal(t, 2*time.Millisecond+time.Nanosecond, d.of(time.Nanosecond), "a share is rounded up, never down")

	t0 := moment{instant: at(5*time.Second, 5*time.Second, 5*time.Second), at: time.Unix(100, 0)}
	v := validFrom(t0, 10*time.Second, d)
	require.Equal(t, time.Unix(100, 0).Add(9898*time.Millisecond), v.until(), "from T0, not from the answer (hazard H25)")
	require.Equal(t, 9898*time.Millisecond, v.left(t0.instant))
	require.Equal(t, -102*time.Millisecond, v.left(at(15*time.Second, 0, 0)))
}

func TestExtendedNeverShortens(t *testing.T) {
	d := Drift{Fixed: time.Millisecond}
	t0 := moment{}
	t1 := moment{instant: at(time.Second, time.Second, time.Second), at: t0.at.Add(time.Second)}
	long := validFrom(t0, 10*time.Second, d)
	require.Equal(t, long, long.extended(validFrom(t1, 5*time.Second, d)))
	longer := validFrom(t1, 10*time.Second, d)
	require.Equal(t, longer, long.extended(longer))
}

func TestMarginBounds(t *testing.T) {
	require.Equal(t, 5*time.Millisecond, margin(10*time.Millisecond))
	require.Equal(t, 20*time.Millisecond, margin(time.Second))
	require.Equal(t, 50*time.Millisecond, margin(time.Hour))
}

func TestQuarantineOutlastsEveryLease(t *testing.T) {
	require.Equal(t, 12100*time.Millisecond, quarantineFor(10*time.Second))
	require.Equal(t, 3010*time.Millisecond, quarantineFor(time.Second))
}

func TestCeilMillis(t *testing.T) {
	require.Equal(t, 2*time.Millisecond, ceilMillis(1500*time.Microsecond))
	require.Equal(t, time.Millisecond, ceilMillis(1))
	require.Zero(t, ceilMillis(0))
	require.LessOrEqual(t, ceilMillis(-time.Second), time.Duration(0))
	require.Equal(t, Forever, ceilMillis(Forever), "no overflow")
}

// plainClock has only what the interface asks for.
type plainClock struct{ now time.Time }

func (c *plainClock) Now() time.Time { return c.now }
func (c *plainClock) AfterFunc(time.Duration, func()) func() bool {
	return func() bool { return false }
}

// tripleClock has the three readings too.
type tripleClock struct{ plainClock }

func (*tripleClock) Instant() (mono, boot, wall time.Duration) { return 1, 2, 3 }

func TestReadClocks(t *testing.T) {
	plain := &plainClock{now: time.Unix(7, 0)}
	want := 7 * time.Second
	require.Equal(t, moment{at(want, want, want), plain.now}, read(plain))
	triple := &tripleClock{*plain}
	require.Equal(t, moment{at(1, 2, 3), plain.now}, read(triple))
	require.Equal(t, moment{at(1, 2, 3), plain.now}, quick(triple))
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSystemClock()
		a, qa := read(c), quick(c)
		fired := false
		c.AfterFunc(time.Minute, func() { fired = true })
		stop := c.AfterFunc(time.Minute, func() { t.Error("was stopped") })
		require.True(t, stop())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.True(t, fired)
		b := read(c)
		require.Equal(t, time.Hour, b.since(a.instant))
		require.Equal(t, time.Hour, b.at.Sub(a.at))
		require.Equal(t, time.Hour, b.wall-a.wall)
		require.Equal(t, b.at, c.Now())
		require.Equal(t, time.Hour, quick(c).waited(qa.instant), "lanes do without the boot clock, which is never the smallest")
	})
}

func TestSystemClockReadsBoottime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has it")
	}
	require.NotEqual(t, time.Duration(-1), bootTime(-1), "no CLOCK_BOOTTIME on Linux")
}
