package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheWrongReleaseFreesSomeoneElsesLock(t *testing.T) {
	require.Equal(t, "nobody", overran(io.Discard, false), "B worked under this lock")
	require.Equal(t, "nobody", between(io.Discard, false), "although A compared, in its own program")
}

func TestTheRightReleaseLeavesIt(t *testing.T) {
	require.Equal(t, "token-B", overran(io.Discard, true))
	require.Equal(t, "token-B", between(io.Discard, true))
}

func TestOnesOwnTokenFrees(t *testing.T) {
	require.Equal(t, "nobody", own(io.Discard))
}

func TestTheTimelineIsToldInTwoColumns(t *testing.T) {
	var out bytes.Buffer
	between(&out, false)
	require.Contains(t, out.String(), `     29s  GET → "token-A"`)
	require.Contains(t, out.String(), `     31s  DEL (it was "token-B")`)
}

// service is an order service on three nodes in memory, in virtual time.
func service(t *testing.T, f func(t *testing.T, s *OrderService, nodes *redlocktest.Nodes, log *bytes.Buffer), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, nodes := redlocktest.NewLocker(t, 3, opts...)
		var log bytes.Buffer
		f(t, &OrderService{
			Locker: l, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Work: func(context.Context, int) error { return nil },
		}, nodes, &log)
	})
}

func free(t *testing.T, nodes *redlocktest.Nodes) {
	t.Helper()
	synctest.Wait()
	for i := range nodes.Len() {
		_, _, found := nodes.At(i).Get("lock:order:7")
		require.False(t, found, "node %d still has the lock", i)
	}
}

func TestAnOrderIsProcessedOnOneServerAtATime(t *testing.T) {
	service(t, func(t *testing.T, s *OrderService, nodes *redlocktest.Nodes, _ *bytes.Buffer) {
		other := *s
		s.Work = func(ctx context.Context, id int) error {
			require.ErrorIs(t, other.Process(t.Context(), id), ErrBusy)
			require.NoError(t, other.Process(t.Context(), id+1), "another order is another lock")
			return ctx.Err()
		}
		require.NoError(t, s.Process(t.Context(), 7))
		require.NoError(t, other.Process(t.Context(), 7))
		free(t, nodes)
	})
}

func TestEveryPathReleases(t *testing.T) {
	service(t, func(t *testing.T, s *OrderService, nodes *redlocktest.Nodes, log *bytes.Buffer) {
		failed := errors.New("out of paper")
		s.Work = func(context.Context, int) error { return failed }
		require.ErrorIs(t, s.Process(t.Context(), 7), failed)
		free(t, nodes)
		s.Work = func(context.Context, int) error { panic("boom") }
		require.PanicsWithValue(t, "boom", func() { _ = s.Process(t.Context(), 7) })
		free(t, nodes)
		require.Empty(t, log.String())
	})
}

func TestItWarnsWhenTheLeaseHadEnded(t *testing.T) {
	service(t, func(t *testing.T, s *OrderService, _ *redlocktest.Nodes, log *bytes.Buffer) {
		s.Work = func(context.Context, int) error {
			time.Sleep(time.Minute) // and nobody renews
			return nil
		}
		require.ErrorIs(t, s.Process(t.Context(), 7), redlock.ErrLost)
		require.Contains(t, log.String(), "the lease had ended before the work")
	}, redlock.WithoutRenewal())
}

func TestNoLockNoWork(t *testing.T) {
	service(t, func(t *testing.T, s *OrderService, nodes *redlocktest.Nodes, _ *bytes.Buffer) {
		for i := range 2 {
			nodes.At(i).Kill()
		}
		s.Work = func(context.Context, int) error { t.Error("worked without the lock"); return nil }
		require.ErrorIs(t, s.Process(t.Context(), 7), redlock.ErrNoQuorum)
	})
}
