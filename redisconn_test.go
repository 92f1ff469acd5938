package redlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
	"github.com/redlock-go/redlock/internal/seam"
)

// connTo dials a server and runs the connection check.
func connTo(tb testing.TB, opt *redis.Options, timeout time.Duration) *redisConn {
	tb.Helper()
	conn, err := newRedisDialer(opt).Dial(timeout)
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	r := doCalls(tb, conn, seam.Call{Op: seam.Hello, SealKey: "s", QuarantineKey: "q"})
	require.Equal(tb, seam.OK, r[0].Code, "%v", r[0].Err)
	return conn.(*redisConn)
}

func doCalls(tb testing.TB, conn seam.Conn, calls ...seam.Call) []seam.Reply {
	tb.Helper()
	replies := make([]seam.Reply, len(calls))
	require.NoError(tb, conn.Do(calls, replies))
	return replies
}

func codesOf(replies []seam.Reply) (codes []seam.Code) {
	for _, r := range replies {
		codes = append(codes, r.Code)
	}
	return codes
}

// adminOf is a client of the test's own.
func adminOf(tb testing.TB, s *redisproc.Server) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// The calls that the tests speak in.
func acquireOf(key, token string) seam.Call {
	return seam.Call{Op: seam.Acquire, Key: key, Token: token, TTL: time.Minute}
}

func labelledOf(key, token string) seam.Call {
	c := acquireOf(key, token)
	c.Label, c.LabelKey = "me", "l:"+key
	return c
}

func extendOf(key, token string) seam.Call {
	return seam.Call{Op: seam.Extend, Key: key, Token: token, MarkKey: "m:" + key, TTL: time.Minute}
}

func releaseOf(key, token string) seam.Call {
	return seam.Call{Op: seam.Release, Key: key, Token: token}
}

func breakOf(key, token string) seam.Call {
	return seam.Call{Op: seam.Break, Key: key, Token: token, MarkKey: "m:" + key, LabelKey: "l:" + key, TTL: time.Minute}
}

func checkOf() seam.Call { return seam.Call{Op: seam.Check, SealKey: "s", QuarantineKey: "q"} }

func sealOf(expect, value string) seam.Call {
	return seam.Call{Op: seam.Seal, SealKey: "s", QuarantineKey: "q", Expect: expect, Value: value}
}

func TestConnOps(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	require.NoError(t, adminOf(t, s).LPush(t.Context(), "list", "x").Err())
	stale := extendOf("a", "t1")
	stale.NotAfter = 1
	keep := releaseOf("a", "t1")
	keep.KeepFor = 40 * time.Second
	for _, step := range []struct {
		call seam.Call
		want seam.Code
	}{
		{acquireOf("a", "t1"), seam.OK},
		{acquireOf("a", "t2"), seam.Held},
		{labelledOf("a", "t2"), seam.Held},
		{labelledOf("b", "t2"), seam.OK},
		{acquireOf("list", "t"), seam.Held},
		{extendOf("a", "t1"), seam.Mine},
		{extendOf("a", "t2"), seam.Other},
		{stale, seam.Stale},
		{extendOf("c", "t3"), seam.Readded},
		{releaseOf("c", "other"), seam.Gone},
		{releaseOf("c", "t3"), seam.Deleted},
		{releaseOf("c", "t3"), seam.Gone},
		{releaseOf("list", "t"), seam.Error},
		{keep, seam.Deleted},
		{breakOf("b", "wrong"), seam.Other},
		{breakOf("b", "t2"), seam.Deleted},
		{breakOf("b", "t2"), seam.Gone},
		{extendOf("b", "t2"), seam.Broken},
		{sealOf("", "one"), seam.OK},
		{sealOf("", "two"), seam.Other},
		{sealOf("one", "two"), seam.OK},
		{checkOf(), seam.OK},
	} {
		r := doCalls(t, c, step.call)[0]
		require.Equal(t, step.want, r.Code, "%v of %q by %q: %v", step.call.Op, step.call.Key, step.call.Token, r.Err)
	}
	r := doCalls(t, c, checkOf(), seam.Call{Op: seam.Probe, Key: "a"}, seam.Call{Op: seam.Probe, Key: "none"},
		seam.Call{Op: seam.Probe, Key: "list"}, labelledOf("d", "t4"), seam.Call{Op: seam.Inspect, Key: "d", LabelKey: "l:d"})
	require.Equal(t, "two", r[0].Seal)
	require.True(t, r[0].Master)
	require.Len(t, r[0].Replid, 40)
	require.Equal(t, "string", r[1].Type)
	require.InDelta(t, 40*time.Second, r[1].TTL, float64(10*time.Second), "shortened by KeepFor")
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "none", TTL: -2}, r[2])
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "list", TTL: -1}, r[3])
	require.Equal(t, "t4", r[5].Value)
	require.Equal(t, "me", r[5].Label)
}

// A server that has lost the scripts, all or some of them, answers as if not.
func TestConnScriptFlush(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	admin := adminOf(t, s)
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	for _, row := range []struct {
		name   string
		loaded []script // what the server knows again by the time of the batch
		held   string   // token at key k
		calls  []seam.Call
		want   []seam.Code
		left   string // what stands at k afterwards
	}{
		{"all", nil, "t", []seam.Call{extendOf("k", "t"), labelledOf("k", "u"), releaseOf("k", "t"), sealOf("", ""), breakOf("x", "y"), checkOf()},
			[]seam.Code{seam.Mine, seam.Held, seam.Deleted, seam.Other, seam.Gone, seam.OK}, ""},
		{"plain acquire between", nil, "", []seam.Call{releaseOf("j", "t"), acquireOf("k", "t"), extendOf("k", "t")},
			[]seam.Code{seam.Gone, seam.OK, seam.Mine}, "t"},
		{"the release ran, the extend comes late", []script{releaseScript}, "t", []seam.Call{extendOf("k", "t"), releaseOf("k", "t")},
			[]seam.Code{seam.Readded, seam.Deleted}, ""},
		{"the break ran, the extend comes late", []script{breakScript}, "v", []seam.Call{extendOf("k", "v"), breakOf("k", "v")},
			[]seam.Code{seam.Broken, seam.Deleted}, ""},
		{"the acquire ran", []script{acquireScript}, "", []seam.Call{extendOf("j", "t"), labelledOf("k", "w"), releaseOf("j", "t")},
			[]seam.Code{seam.Readded, seam.OK, seam.Deleted}, "w"},
		{"the re-adding extend ran", []script{extendScript}, "", []seam.Call{releaseOf("j", "t"), extendOf("k", "t")},
			[]seam.Code{seam.Gone, seam.Readded}, "t"},
		{"the seal ran", []script{sealScript}, "", []seam.Call{releaseOf("j", "t"), sealOf("", "new")}, []seam.Code{seam.Gone, seam.OK}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, admin.FlushDB(t.Context()).Err())
			require.NoError(t, admin.ScriptFlush(t.Context()).Err())
			for _, sc := range row.loaded {
				require.Equal(t, sc.sha, admin.ScriptLoad(t.Context(), sc.source).Val())
			}
			if row.held != "" {
				require.NoError(t, admin.Set(t.Context(), "k", row.held, time.Minute).Err())
			}
			for range 2 { // the second time it has the scripts again, and the slots are used ones
				require.Equal(t, row.want, codesOf(doCalls(t, c, row.calls...)))
				require.Equal(t, row.left, admin.Get(t.Context(), "k").Val())
				require.NoError(t, admin.FlushDB(t.Context()).Err())
				if row.held != "" {
					require.NoError(t, admin.Set(t.Context(), "k", row.held, time.Minute).Err())
				}
				if row.loaded != nil {
					break // with all scripts there, the answers are others
				}
			}
		})
	}
	require.NotContains(t, admin.Info(t.Context(), "commandstats").Val(), "cmdstat_multi", "the plain pipeline was tapped")
}

func TestConnTimeout(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 50*time.Millisecond)
	s.Stop()
	defer s.Cont()
	replies := make([]seam.Reply, 2)
	start := time.Now()
	require.ErrorContains(t, c.Do([]seam.Call{acquireOf("a", "t"), checkOf()}, replies), "timeout")
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
	require.Equal(t, []seam.Code{seam.None, seam.None}, codesOf(replies))
	require.Error(t, c.Do([]seam.Call{acquireOf("a", "t")}, replies[:1]), "it is of no more use")
	require.Equal(t, seam.None, replies[0].Code)

	_, err := newRedisDialer(&redis.Options{Addr: s.Addr()}).Dial(50 * time.Millisecond)
	require.Error(t, err)
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestConnReadOnly(t *testing.T) {
	s := startServers(t, 2, redisproc.Options{})
	c := connTo(t, &redis.Options{Addr: s[0].Addr()}, 5*time.Second)
	host, port, _ := strings.Cut(s[1].Addr(), ":")
	require.NoError(t, adminOf(t, s[0]).ReplicaOf(t.Context(), host, port).Err())
	r := doCalls(t, c, acquireOf("a", "t"), extendOf("a", "t"), checkOf())
	require.Equal(t, []seam.Code{seam.Error, seam.Error, seam.OK}, codesOf(r))
	require.ErrorContains(t, r[0].Err, "READONLY")
	require.ErrorContains(t, r[1].Err, "READONLY")
	require.False(t, r[2].Master)
	// go-redis has given the connection up: nothing is sent any more, and no
	// call may look as if it had been answered.
	for _, calls := range [][]seam.Call{{checkOf()}, {acquireOf("a", "t"), checkOf()}, {releaseOf("a", "t")}} {
		replies := make([]seam.Reply, len(calls))
		require.Error(t, c.Do(calls, replies))
		for _, r := range replies {
			require.Equal(t, seam.Reply{}, r)
		}
	}
}

func TestConnOutOfMemory(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	doCalls(t, c, acquireOf("a", "t"))
	require.NoError(t, adminOf(t, s).ConfigSet(t.Context(), "maxmemory", "1").Err())
	r := doCalls(t, c, acquireOf("b", "t"), labelledOf("b", "t"), extendOf("b", "t"), releaseOf("a", "t"), checkOf(),
		seam.Call{Op: seam.Hello, SealKey: "s", QuarantineKey: "q"})
	require.Equal(t, []seam.Code{seam.Error, seam.Error, seam.Error, seam.Deleted, seam.OK, seam.OK}, codesOf(r))
	for _, r := range r[:3] {
		require.ErrorContains(t, r.Err, "OOM")
	}
	require.EqualValues(t, 1, r[5].Facts.MaxMemory)
}

func TestConnRights(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	admin := adminOf(t, s)
	for _, row := range []struct {
		minus string
		want  []string // in the error of the connection check; nil: it passes
		kill  string   // in KillRefused
	}{
		{"-ping", nil, ""},
		{"-script", nil, ""},
		{"-client|info", nil, "NOPERM"},
		{"-client|id", nil, "NOPERM"},
		{"-eval", []string{"NOPERM", "EVALSHA are needed"}, ""},
		{"-evalsha", []string{"NOPERM", "EVALSHA are needed"}, ""},
		{"-info", []string{"NOPERM", "info"}, ""},
	} {
		t.Run(row.minus, func(t *testing.T) {
			require.NoError(t, admin.Do(t.Context(), "acl", "setuser", "app", "reset", "on", ">hunter2", "~*", "&*", "+@all", row.minus).Err())
			conn, err := newRedisDialer(&redis.Options{Addr: s.Addr(), Username: "app", Password: "hunter2"}).Dial(5 * time.Second)
			require.NoError(t, err)
			defer conn.Close()
			r := doCalls(t, conn, seam.Call{Op: seam.Hello, SealKey: "s", QuarantineKey: "q"})[0]
			if row.want != nil {
				require.Equal(t, seam.Error, r.Code)
				for _, want := range row.want {
					require.ErrorContains(t, r.Err, want)
				}
				return
			}
			require.Equal(t, seam.OK, r.Code, "%v", r.Err)
			if row.kill == "" {
				require.NoError(t, r.Facts.KillRefused)
			} else {
				require.ErrorContains(t, r.Facts.KillRefused, row.kill)
			}
			require.Equal(t, seam.Gone, doCalls(t, conn, releaseOf("a", "t"))[0].Code)
		})
	}
}

func TestConnKill(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	a, b := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second), connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	facts := doCalls(t, b, seam.Call{Op: seam.Hello, SealKey: "s", QuarantineKey: "q"})[0].Facts
	require.Equal(t, "standalone", facts.Mode)
	require.NotZero(t, facts.Time)
	require.Len(t, facts.RunID, 40)
	kill := seam.Call{Op: seam.Kill, ClientID: facts.ClientID, Addr: "127.0.0.1:1"}
	require.Equal(t, seam.OK, doCalls(t, a, kill)[0].Code)
	doCalls(t, b, checkOf()) // another's address: still there
	kill.Addr = facts.Addr
	for range 2 { // the second time it is gone, which is as good
		require.Equal(t, seam.OK, doCalls(t, a, kill)[0].Code)
	}
	require.Error(t, b.Do([]seam.Call{checkOf()}, make([]seam.Reply, 1)))
}

func TestConnScan(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	admin := adminOf(t, s)
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	require.NoError(t, admin.LPush(t.Context(), "lo[*]ck:list", "x").Err())
	require.NoError(t, admin.MSet(t.Context(), "loc", "1", "lo*ck:x", "1", "redlock:seal:lo[*]ck:", "1", "redlock:q:x", "1").Err())
	holds := seam.Call{Op: seam.Holds, Key: "lo[*]ck:"}
	r := doCalls(t, c, holds, acquireOf("lo[*]ck:x", "t"), holds, seam.Call{Op: seam.Holds, Key: "redlock:"}, seam.Call{Op: seam.Seals}, checkOf())
	require.Equal(t, []seam.Code{seam.OK, seam.OK, seam.OK, seam.OK, seam.OK, seam.OK}, codesOf(r))
	require.Empty(t, r[0].Value)
	require.Equal(t, "lo[*]ck:x", r[2].Value, "in the order of the batch")
	require.Empty(t, r[3].Value)
	require.Equal(t, []string{"redlock:seal:lo[*]ck:"}, r[4].Values)
}

// tellWrites tells of every write on a connection.
type tellWrites struct {
	net.Conn

	wrote chan struct{}
}

func (w *tellWrites) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	select {
	case w.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func TestConnCloseInFlight(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	wrote := make(chan struct{}, 1)
	c := connTo(t, &redis.Options{Addr: s.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &tellWrites{nc, wrote}, err
	}}, time.Minute)
	s.Stop()
	defer s.Cont()
	<-wrote // the connection check's
	done := make(chan error)
	go func() { done <- c.Do([]seam.Call{acquireOf("a", "t"), checkOf()}, make([]seam.Reply, 2)) }()
	<-wrote
	c.Close()
	select {
	case err := <-done:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("Close left a batch waiting")
	}
	c.Close()
	require.Error(t, c.Do([]seam.Call{checkOf()}, make([]seam.Reply, 1)))
}

// The bar of the hot path, per pair on one node: what go-redis needs to read the
// replies.
func TestConnAllocations(t *testing.T) {
	s := startServers(t, 1, redisproc.Options{})[0]
	c := connTo(t, &redis.Options{Addr: s.Addr()}, 5*time.Second)
	replies := make([]seam.Reply, 2)
	acquire, release := []seam.Call{acquireOf("a", "t"), checkOf()}, []seam.Call{releaseOf("a", "t")}
	var failed error
	got := testing.AllocsPerRun(50, func() {
		clear(replies)
		failed = errors.Join(failed, c.Do(acquire, replies))
		clear(replies)
		failed = errors.Join(failed, c.Do(release, replies[:1]))
	})
	require.NoError(t, failed)
	require.LessOrEqual(t, got, 10.0)
}
