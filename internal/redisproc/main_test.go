package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childEnv makes this binary a process that starts a server and waits to be killed.
const childEnv = "REDLOCK_REDISPROC_CHILD"

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// child says which server it started: address, process id and folder.
func child() {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Addr(), s.PID(), s.dir)
	_, _ = io.Copy(io.Discard, os.Stdin) // the test ends it, or ends itself
}

// needRedis skips where redis-server is missing; but not in CI.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// begin starts a server that ends with the test.
func begin(t *testing.T, opt Options) *Server {
	t.Helper()
	needRedis(t)
	s, err := Start(t.Context(), opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// conn is a connection to a server, in its inline protocol.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *Server) *conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &conn{c, bufio.NewReader(c)}
}

// ask sends a command and returns the first line of the reply.
func (c *conn) ask(t *testing.T, command string) string {
	t.Helper()
	_, err := fmt.Fprintf(c, "%s\r\n", command)
	require.NoError(t, err)
	return c.line(t)
}

func (c *conn) line(t *testing.T) string {
	t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimRight(line, "\r\n")
}

// holds reports whether the server has the key.
func holds(t *testing.T, s *Server, key string) bool {
	t.Helper()
	return dial(t, s).ask(t, "EXISTS "+key) == ":1"
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !ok(); <-tick.C {
		require.True(t, time.Now().Before(limit), "not within %s: %s", patience, what)
	}
}

// requireRefused shows that nobody listens where the server was.
func requireRefused(t *testing.T, addr string) {
	t.Helper()
	_, err := net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// requireNoProcess shows that our child was waited for, and is no zombie either.
func requireNoProcess(t *testing.T, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// requireNoDir shows that a folder is removed.
func requireNoDir(t *testing.T, dir string) {
	t.Helper()
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// ended reports whether somebody else's child has ended: whether that waits for
// it is not ours.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}
