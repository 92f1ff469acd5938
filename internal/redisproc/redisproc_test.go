package redisproc

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartAndClose(t *testing.T) {
	needRedis(t)
	s, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	pid := s.PID()
	require.Equal(t, "+PONG", dial(t, s).ask(t, "PING"))
	require.DirExists(t, s.dir)
	require.NoError(t, s.Close())
	requireNoProcess(t, pid)
	requireNoDir(t, s.dir)
	requireRefused(t, s.Addr())
	require.Zero(t, s.PID())
	require.NoError(t, s.Close(), "twice is no error")
	s.Kill()
	s.Stop()
	s.Cont()
	require.Error(t, s.Restart(t.Context(), true), "it is closed")
	require.Zero(t, s.PID())
}

func TestStartN(t *testing.T) {
	needRedis(t)
	all, err := StartN(t.Context(), 4, Options{})
	require.NoError(t, err)
	addrs, pids := map[string]bool{}, map[int]bool{}
	for _, s := range all {
		host, _, err := net.SplitHostPort(s.Addr())
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", host)
		require.Equal(t, "+OK", dial(t, s).ask(t, "SET "+filepath.Base(s.dir)+" 1"))
		addrs[s.Addr()], pids[s.PID()] = true, true
	}
	require.Len(t, addrs, 4)
	require.Len(t, pids, 4)
	for _, s := range all {
		require.Equal(t, ":1", dial(t, s).ask(t, "DBSIZE"), "each has its own data")
		require.NoError(t, s.Close())
	}
	for pid := range pids {
		requireNoProcess(t, pid)
	}
}

// One that cannot be started takes the others with it.
func TestStartNEndsThoseThatStarted(t *testing.T) {
	needRedis(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	socket := filepath.Join(t.TempDir(), "lock")
	wrapper(t, `if mkdir `+socket+` 2>/dev/null; then exec "$REAL" "$@"; fi; echo only one of us; exit 1`)
	all, err := StartN(t.Context(), 3, Options{})
	require.ErrorContains(t, err, "only one of us")
	require.Empty(t, all)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// wrapper puts a shell script before redis-server, which is $REAL to it.
func wrapper(t *testing.T, script string) {
	t.Helper()
	path, err := Find()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "redis-server")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	t.Setenv("REAL", path)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestKill(t *testing.T) {
	s := begin(t, Options{})
	c, pid := dial(t, s), s.PID()
	require.Equal(t, "+PONG", c.ask(t, "PING"))
	s.Kill()
	requireNoProcess(t, pid)
	requireRefused(t, s.Addr())
	require.Zero(t, s.PID())
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	s.Kill()
}

func TestStopAndCont(t *testing.T) {
	s := begin(t, Options{})
	c := dial(t, s)
	require.Equal(t, "+PONG", c.ask(t, "PING"))
	s.Stop()
	until(t, "the server hangs", func() bool {
		c = dial(t, s) // the kernel still accepts
		_, err := c.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = c.in.Peek(1)
		return os.IsTimeout(err)
	})
	require.NotZero(t, s.PID())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	c.in.Reset(c.Conn)
	s.Cont()
	require.Equal(t, "+PONG", c.line(t), "what was sent meanwhile is answered")

	pid := s.PID()
	s.Stop()
	s.Kill() // SIGKILL also ends who is stopped
	requireNoProcess(t, pid)
}

func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		opt         Options
		save, empty bool
		kept        bool
	}{
		"nothing persisted":    {},
		"snapshot":             {save: true, kept: true},
		"snapshot, but empty":  {save: true, empty: true},
		"append-only":          {opt: Options{AppendOnly: true}, kept: true},
		"append-only, empty":   {opt: Options{AppendOnly: true}, empty: true},
		"nothing, still empty": {empty: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, c.opt)
			addr, pid := s.Addr(), s.PID()
			require.Equal(t, "+OK", dial(t, s).ask(t, "SET k v"))
			if c.save {
				require.Equal(t, "+OK", dial(t, s).ask(t, "SAVE"))
			}
			require.NoError(t, s.Restart(t.Context(), c.empty))
			requireNoProcess(t, pid)
			require.NotEqual(t, pid, s.PID())
			require.Equal(t, addr, s.Addr())
			require.Equal(t, c.kept, holds(t, s, "k"))
			s.Kill()
			require.NoError(t, s.Restart(t.Context(), true), "also when it is down")
			require.False(t, holds(t, s, "k"))
		})
	}
}

func TestServerThatEndsByItself(t *testing.T) {
	s := begin(t, Options{})
	pid := s.PID()
	_, err := dial(t, s).Write([]byte("SHUTDOWN NOSAVE\r\n"))
	require.NoError(t, err)
	until(t, "PID is 0", func() bool { return s.PID() == 0 })
	requireNoProcess(t, pid)
	s.Stop() // nobody is hit, whoever has that id now
	s.Kill()
	require.NoError(t, s.Restart(t.Context(), false))
	require.Equal(t, "+PONG", dial(t, s).ask(t, "PING"))
}

// Of Restarts, Kills and a Close at once no process is left.
func TestConcurrently(t *testing.T) {
	s := begin(t, Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				_ = s.Restart(context.Background(), true) // a Kill may come between
				s.Stop()
				s.Cont()
				_ = s.PID()
			}
		})
		all.Go(s.Kill)
	}
	all.Wait()
	require.NoError(t, s.Restart(t.Context(), false))
	pid := s.PID()
	all.Go(func() { _ = s.Restart(context.Background(), true) })
	all.Go(func() { _ = s.Close() })
	all.Wait()
	require.NoError(t, s.Close())
	requireNoProcess(t, pid)
	requireRefused(t, s.Addr())
	requireNoDir(t, s.dir)
}

func TestErrorHasTheLog(t *testing.T) {
	needRedis(t)
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown argument":  {[]string{"--no-such-thing", "1"}, "Bad directive or wrong number of arguments"},
		"bad value":         {[]string{"--maxmemory", "plenty"}, "argument must be a memory value"},
		"cannot be started": {[]string{"--unixsocket", "/no/such/folder/redis.sock"}, "Failed opening Unix socket"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(t.Context(), Options{Args: c.args})
			require.Nil(t, s)
			require.ErrorContains(t, err, "redis-server ended at once; its log ends:\n")
			require.ErrorContains(t, err, c.want)
			require.Equal(t, 1, strings.Count(err.Error(), "ended at once"), "only a taken port is a reason to try again")
		})
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Between the choice of a port and its use another may take it; that one's
// answers must not pass for ours.
func TestPortTaken(t *testing.T) {
	other := begin(t, Options{})
	s := &Server{path: other.path, dir: t.TempDir(), port: other.port}
	require.ErrorContains(t, s.start(t.Context()), portTaken)
	require.Zero(t, s.PID())
	require.Equal(t, "+PONG", dial(t, other).ask(t, "PING"))
}

func TestStartTriesAnotherPort(t *testing.T) {
	needRedis(t)
	once := filepath.Join(t.TempDir(), "once")
	wrapper(t, `if mkdir `+once+` 2>/dev/null; then echo "bind: `+portTaken+`"; exit 1; fi; exec "$REAL" "$@"`)
	s := begin(t, Options{})
	require.DirExists(t, once)
	require.Equal(t, "+PONG", dial(t, s).ask(t, "PING"))
}

func TestStartEndsWithItsContext(t *testing.T) {
	needRedis(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	pid := filepath.Join(t.TempDir(), "pid")
	wrapper(t, `echo $$ >`+pid+`; exec sleep 60`) // never answers
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	var err error
	all.Go(func() { _, err = Start(ctx, Options{}) })
	until(t, "the process runs", func() bool {
		text, _ := os.ReadFile(pid)
		return strings.HasSuffix(string(text), "\n")
	})
	cancel()
	all.Wait()
	require.ErrorIs(t, err, context.Canceled)
	text, err := os.ReadFile(pid)
	require.NoError(t, err)
	requireNoProcess(t, number(t, strings.TrimSpace(string(text))))
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}
