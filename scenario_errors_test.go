package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func nothing(context.Context) error { return nil }

// Taken and broken are told apart, with counts, and with a cause per node.
func TestERR01_TakenOrBroken(t *testing.T) {
	for name, c := range map[string]struct {
		taken, dead int
		held        bool
	}{
		"three taken":            {3, 0, true},
		"three refused":          {0, 3, false},
		"two taken, one refused": {2, 1, true},
		"one taken, two refused": {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				w.put("lock:x", "another", time.Minute, []int{0, 1, 2}[:c.taken]...)
				for _, n := range w.nodes[c.taken : c.taken+c.dead] {
					n.Kill()
				}
				_, err := w.client().TryAcquire(t.Context(), "x")
				require.Equal(t, c.held, errors.Is(err, redlock.ErrHeld), "%v", err)
				require.Equal(t, !c.held, errors.Is(err, redlock.ErrNoQuorum), "%v", err)
				var q *redlock.QuorumError
				require.ErrorAs(t, err, &q)
				require.Equal(t, 3, q.N)
				require.Equal(t, 2, q.Need)
				require.LessOrEqual(t, q.Failed, c.dead)
				require.ErrorContains(t, err, "2 of 3 needed")
				if !c.held {
					var node *redlock.NodeError
					require.ErrorAs(t, err, &node)
					require.Contains(t, node.Node, "mem")
					require.Len(t, q.Nodes.Errors, q.Failed)
				}
			})
		})
	}
}

// The cause of each node is in the error, once, and no clean-up's error hides it.
func TestERR02_TheCauseOfEveryNodeOnce(t *testing.T) {
	servers, _ := overReal3(t)
	for _, s := range servers[1:] {
		require.NoError(t, s.admin.ConfigSet(t.Context(), "requirepass", "right").Err())
	}
	var nodes []redlock.Node
	for i, s := range servers {
		opt := &redis.Options{Addr: s.Addr()}
		if i > 0 {
			opt.Password = "wrong"
		}
		nodes = append(nodes, redlock.Master(opt))
	}
	l, err := redlock.New(nodes, redlock.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	defer l.Close()
	_, err = l.TryAcquire(t.Context(), "x")
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(err.Error(), "WRONGPASS"), "%v", err)
	for _, s := range servers[1:] {
		require.Equal(t, 1, strings.Count(err.Error(), s.Addr()), "%v", err)
	}
	require.NotContains(t, err.Error(), "release")
}

// A deadline, a cancellation and the end of the wait are told apart, and the last
// verdict is there in each.
func TestERR03_WhatEndedTheWait(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		lease := w.client().held("x")
		b := w.client()

		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := b.Acquire(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)
		cancel()

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		_, err = b.Acquire(ctx, "x")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)

		shutdown := errors.New("the service shuts down")
		ctx, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(200*time.Millisecond, func() { cancelCause(shutdown) })
		_, err = b.Acquire(ctx, "x")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, shutdown)

		_, err = b.Acquire(t.Context(), "x", redlock.WithWait(200*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The secrets of a URL are in no error and in no log line.
func TestERR05_NoSecretInErrorsAndLogs(t *testing.T) {
	const secret = "S3CRET"
	for _, url := range []string{
		"redis://u:" + secret + "@h:x", "redis://u:" + secret + "@:1", "redis://u:" + secret + "@h/db", "http://u:" + secret + "@h",
		"redis://u:" + secret + "@h\x7f", "redis://u:" + secret + "%zz@h", "u:" + secret + "@h:1:2", "redis://h?password=" + secret,
		"redis://" + secret + "@h/" + secret,
	} {
		_, err := redlock.ParseNodes(url)
		if err != nil {
			require.NotContains(t, err.Error(), secret, url)
		}
	}
	servers, _ := overReal3(t)
	require.NoError(t, servers[0].admin.ConfigSet(t.Context(), "requirepass", "right").Err())
	nodes, err := redlock.ParseNodes("redis://u:"+secret+"@"+servers[0].Addr(), "redis://u:"+secret+"@127.0.0.1:1", "rediss://u:"+secret+"@"+servers[1].Addr())
	require.NoError(t, err)
	var log bytes.Buffer
	l, err := redlock.New(nodes, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.NoError(t, err)
	_, err = l.TryAcquire(t.Context(), "x")
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret)
	for _, r := range l.Check(t.Context()) {
		require.False(t, r.OK)
		for _, f := range r.Findings {
			require.NotContains(t, f.What+f.Do, secret)
		}
	}
	require.NoError(t, l.Close())
	require.NotContains(t, log.String(), secret)
	groups, err := redlock.ParseNodes("redis+sentinel://u:"+secret+"@h1/main?sentinel_password="+secret, "redis+cluster://u:"+secret+"@h1")
	require.NoError(t, err)
	for _, n := range append(nodes, groups...) {
		for _, verb := range []string{"%s", "%v", "%+v", "%#v"} {
			require.NotContains(t, fmt.Sprintf(verb, n), secret)
			require.NotContains(t, fmt.Sprintf(verb, []redlock.Node{n}), secret)
			require.NotContains(t, fmt.Sprintf(verb, l), secret)
		}
	}
}

// Three different things are three errors: never acquired (there is no lease to
// release), released before, and lost.
func TestERR06_ReleasedAndLostDiffer(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		lease := a.held("x")
		none, err := b.TryAcquire(t.Context(), "x")
		require.Nil(t, none)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NoError(t, lease.Release(t.Context()))
		err = lease.Release(t.Context())
		require.ErrorIs(t, err, redlock.ErrReleased)
		require.NotErrorIs(t, err, redlock.ErrLost)

		lease = a.held("x", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		w.pass(2 * time.Second)
		theirs := b.held("x")
		w.pass(time.Millisecond) // the third node may be asked after the verdict
		err = lease.Release(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.NotErrorIs(t, err, redlock.ErrReleased)
		w.holds("lock:x", theirs.Token(), 0, 1, 2)
		require.NoError(t, theirs.Release(t.Context()))
	})
}

// A release that no majority answered can be tried again, and then deletes.
func TestERR07_AFailedReleaseCanBeTriedAgain(t *testing.T) {
	servers, l := overReal3(t)
	lease, err := l.Acquire(t.Context(), "x")
	require.NoError(t, err)
	for _, s := range servers {
		s.Stop()
	}
	err = lease.Release(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
	for _, s := range servers {
		s.Cont()
	}
	require.Eventually(t, func() bool {
		err = lease.Release(t.Context())
		return !errors.Is(err, redlock.ErrNoQuorum)
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		left := int64(0)
		for _, s := range servers {
			left += s.admin.Exists(t.Context(), "lock:x").Val()
		}
		return left == 0
	}, 5*time.Second, time.Millisecond)
}
