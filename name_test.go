package redlock

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lock key among the lock's own keys could be overwritten by another lock's
// label, and then two would hold it.
func TestNamesKeepAwayFromTheLocksOwnKeys(t *testing.T) {
	for prefix, name := range map[string]string{"": "redlock:l:x", "red": "lock:b:x", "redlock:": "x"} {
		l := overMem(t, memNodes(1), WithKeyPrefix(prefix))
		_, err := l.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "redlock:")
	}
}

func TestFullJitterWantsBothTimes(t *testing.T) {
	for _, b := range []Backoff{FullJitter(0, -1), FullJitter(-1, 1), FullJitter(1, 0)} {
		_, err := New([]Node{NodeOver(memNodes(1)[0].Dialer())}, WithBackoff(b))
		require.ErrorIs(t, err, ErrConfig)
	}
}

// A misconfigured node beside a verdict of the others does not make it a
// configuration error (promise P2), but can be found.
func TestAMisconfiguredNodeIsNoConfigErrorOfTheCall(t *testing.T) {
	mems := memNodes(3)
	l := overMem(t, mems)
	require.NoError(t, l.Init(t.Context()))
	mems[0].SetMaxMemory(1<<20, "allkeys-lru")
	mems[1].Kill()
	fresh := overMem(t, mems)
	_, err := fresh.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotErrorIs(t, err, ErrConfig)
	var conf *ConfigError
	require.ErrorAs(t, err, &conf)
}

// A quarantined node without a key says nothing about who holds it.
func TestInspectDoesNotCallFreeWhatMayBeForgotten(t *testing.T) {
	mems := memNodes(3)
	l := overMem(t, mems)
	require.NoError(t, l.Init(t.Context()))
	require.NoError(t, l.Do(t.Context(), "x", func(context.Context) error { return nil }))
	for _, n := range mems {
		n.Flush()
	}
	_, err := l.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, ErrQuarantined)
	s, err := l.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, s.Known)
	require.False(t, s.Held)
}
