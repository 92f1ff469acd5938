package attack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/judge"
	"github.com/redlock-go/redlock/internal/redisproc"
)

func TestAShortAttackIsClean(t *testing.T) {
	needServers(t)
	var grants atomic.Int64
	out, err := Run(t.Context(), Config{
		Nodes: 5, For: 5 * time.Second, Quiet: time.Second, Seed: 7, Dir: filepath.Join(os.TempDir(), "redlock-attack-failed"),
		Progress: func(s Snapshot) { grants.Store(int64(s.Grants)) },
	})
	require.NoError(t, err)
	require.Equal(t, Clean, out.Verdict, "kept in %s: %+v", out.Kept, out.Violations)
	require.True(t, out.AsExpected())
	require.Positive(t, out.Grants)
	require.Positive(t, grants.Load(), "the progress tells of them")
	require.NotEmpty(t, out.Faults)
	require.Equal(t, len(Schedule(7, Config{Nodes: 5, For: 5 * time.Second, Quiet: time.Second})), len(out.Faults)+out.FaultsSkipped)
	for _, f := range out.Faults {
		require.Empty(t, f.Error, "%+v", f)
	}
	require.Positive(t, out.Handover.Count)
	require.Len(t, Holds(out.History), out.Grants)
}

func TestAnAttackOnTheirNodesLeavesThemAlone(t *testing.T) {
	needServers(t)
	servers, err := redisproc.StartN(context.Background(), 3, redisproc.Options{})
	require.NoError(t, err)
	c := Config{For: 4 * time.Second, Quiet: time.Second, Seed: 3, Clients: 2}
	pids := make([]int, len(servers))
	for i, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		c.URLs = append(c.URLs, s.Addr())
		pids[i] = s.PID()
		own := redis.NewClient(&redis.Options{Addr: s.Addr()})
		require.NoError(t, own.Set(t.Context(), "theirs", "kept", 0).Err())
		require.NoError(t, own.Close())
	}
	out, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, Clean, out.Verdict, "kept in %s: %+v", out.Kept, out.Violations)
	require.Positive(t, out.Grants)
	require.NotEmpty(t, out.Faults)
	for i, s := range servers {
		require.Equal(t, pids[i], s.PID())
		own := redis.NewClient(&redis.Options{Addr: s.Addr()})
		require.Equal(t, []string{"theirs"}, own.Keys(t.Context(), "*").Val())
		require.NoError(t, own.Close())
	}
}

func TestACancelledAttackLeavesNothingBehind(t *testing.T) {
	needServers(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("enough")
	_, err := Run(ctx, Config{Nodes: 3, Clients: 2, For: time.Minute, Progress: func(s Snapshot) {
		if s.Faults > 1 && s.Grants > 0 {
			cancel(gone)
		}
	}})
	require.ErrorIs(t, err, gone)
}

func TestWhatCannotBeRun(t *testing.T) {
	for _, c := range []Config{
		{},
		{Nodes: 2},
		{Nodes: 5, URLs: []string{"a:1"}},
		{Nodes: 5, Profile: "hope"},
		{URLs: []string{"a:1", "b:1", "c:1"}, Profile: Beyond},
		{Nodes: 5, For: time.Second},
		{URLs: []string{"unix:///a", "unix:///b", "unix:///c"}},
	} {
		_, err := Run(t.Context(), c)
		require.Error(t, err, "%+v", c)
	}
}

func TestHoldsAndTheTimesBetween(t *testing.T) {
	const ms = time.Millisecond
	op := func(k judge.Kind, token string, start, end, until time.Duration) judge.Op {
		return judge.Op{Client: "c-" + token, Kind: k, Name: "n", Token: token, Start: start, End: end, Until: until, Outcome: judge.OK}
	}
	h := judge.History{
		op(judge.Acquire, "a", 0, 10*ms, 1000*ms),
		op(judge.Release, "a", 50*ms, 60*ms, 0),
		op(judge.Acquire, "b", 40*ms, 70*ms, 500*ms), // waited 20 ms
		op(judge.Extend, "b", 300*ms, 310*ms, 800*ms),
		op(judge.Acquire, "c", 600*ms, 900*ms, 2000*ms), // b's promise ended at 800 ms
		op(judge.Release, "c", 950*ms, 960*ms, 0),
		op(judge.Acquire, "d", 970*ms, 980*ms, 2000*ms), // did not wait
		op(judge.Lost, "d", 990*ms, 990*ms, 0),
	}
	slices.Reverse(h)
	var r Result
	r.measure(h)
	require.Equal(t, Latency{1, 20, 20, 20}, r.Handover)
	require.Equal(t, Latency{1, 100, 100, 100}, r.Loss)
	require.Equal(t, 2, r.Losses)
	holds := Holds(h)
	require.Equal(t, Hold{"c-b", "n", "b", 40 * ms, 70 * ms, 800 * ms, false}, holds[1])
	require.Equal(t, 990*ms, holds[3].To)
}
