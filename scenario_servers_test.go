package redlock_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// realServer is a redis-server with a connection for the one who breaks it.
type realServer struct {
	*redisproc.Server
	admin *redis.Client
}

// realServers starts three redis-servers. Where the gate runs, a missing one is a
// failure.
func realServers(t *testing.T, args ...string) []*realServer {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	started, err := redisproc.StartN(context.Background(), 3, redisproc.Options{Args: args})
	require.NoError(t, err)
	var servers []*realServer
	for _, s := range started {
		r := &realServer{Server: s, admin: redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})}
		servers = append(servers, r)
		t.Cleanup(func() {
			require.NoError(t, r.admin.Close())
			require.NoError(t, s.Close())
		})
	}
	return servers
}

// overReal makes a Locker over real servers.
func overReal(t *testing.T, servers []*realServer, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	addrs := make([]string, 0, len(servers))
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return overAddrs(t, addrs, opts...)
}

func overAddrs(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlock.Master(&redis.Options{Addr: addr}))
	}
	quiet := redlock.WithLogger(slog.New(slog.DiscardHandler))
	l, err := redlock.New(nodes, append([]redlock.Option{quiet}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// childEnv has, in a child process, the addresses of the servers.
const childEnv = "REDLOCK_SCENARIO_CHILD"

// childAddrs says whether this process is a child that startChild made, and
// which servers it was given.
func childAddrs() (addrs []string, child bool) {
	s, child := os.LookupEnv(childEnv)
	if s == "" {
		return nil, child
	}
	return strings.Split(s, ","), child
}

// child is another process that runs the same test.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner // what it prints
	stop  context.CancelFunc
}

// startChild runs the calling test again, as a process of its own that can be
// killed and stopped.
func startChild(t *testing.T, servers []*realServer) *child {
	t.Helper()
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(addrs, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{Cmd: cmd, lines: bufio.NewScanner(out), stop: cancel}
	t.Cleanup(c.end)
	return c
}

// end kills the child, as kill -9 does, and waits until it is gone.
func (c *child) end() {
	c.stop()
	_ = c.Wait()
}

// next is the next line of the child's that begins with a word, without it;
// false when it ended first.
func (c *child) next(word string) (string, bool) {
	for c.lines.Scan() {
		if rest, ok := strings.CutPrefix(c.lines.Text(), word+" "); ok {
			return rest, true
		}
	}
	return "", false
}
