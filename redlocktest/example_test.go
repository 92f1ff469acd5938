package redlocktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A user's test: an hour of work in virtual time, with two nodes that fail.
func TestWorkSurvivesAMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, nodes := redlocktest.NewLocker(t, 5)
		lease, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		nodes.At(0).Hang()
		nodes.At(1).Forget()
		time.Sleep(time.Hour)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestEveryFault(t *testing.T) {
	for name, fault := range map[string]func(*redlocktest.Node){
		"kill":         (*redlocktest.Node).Kill,
		"forget":       (*redlocktest.Node).Forget,
		"flush":        (*redlocktest.Node).Flush,
		"hang":         (*redlocktest.Node).Hang,
		"demote":       (*redlocktest.Node).Demote,
		"lost replies": func(n *redlocktest.Node) { n.LoseReplies(true) },
		"late":         func(n *redlocktest.Node) { n.Delay(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locker, nodes := redlocktest.NewLocker(t, 3)
				one := func() error {
					lease, err := locker.TryAcquire(t.Context(), "job")
					if err != nil {
						return err
					}
					return lease.Release(t.Context())
				}
				fault(nodes.At(0))
				require.NoError(t, one(), "one node of three")
				fault(nodes.At(1))
				time.Sleep(time.Second)
				require.ErrorIs(t, one(), redlock.ErrNoQuorum, "two nodes of three")
			})
		})
	}
}

func TestLockersShareTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, nodes := redlocktest.NewLocker(t, 3)
		b := nodes.NewLocker(t)
		lease, err := a.Acquire(t.Context(), "job")
		require.NoError(t, err)
		_, err = b.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrHeld)
		token, ttl, ok := nodes.At(0).Get("lock:job")
		require.True(t, ok)
		require.Equal(t, lease.Token(), token)
		require.Positive(t, ttl)
		require.Contains(t, nodes.At(0).Keys(), "lock:job")
	})
}

func TestAClockThatRunsFastEndsTheKeyEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, nodes := redlocktest.NewLocker(t, 3)
		for i := range 2 {
			nodes.At(i).SkewClock(0, 3) // beyond every drift
		}
		lease, err := a.Acquire(t.Context(), "job", redlock.WithoutRenewal(), redlock.WithTTL(9*time.Second))
		require.NoError(t, err)
		time.Sleep(4 * time.Second)
		require.NoError(t, lease.Err(), "the client trusts its own clock")
		_, err = nodes.NewLocker(t).TryAcquire(t.Context(), "job")
		require.NoError(t, err, "so this is beyond what the lock can promise")
	})
}
