package faultproxy

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// command is a command in RESP.
func command(args ...string) string {
	var b strings.Builder
	for _, n := range args {
		b.WriteString("$" + strconv.Itoa(len(n)) + "\r\n" + n + "\r\n")
	}
	return "*" + strconv.Itoa(len(args)) + "\r\n" + b.String()
}

// A real server, asked in its own protocol: what a lock client meets.
func TestRealRedis(t *testing.T) {
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := redisproc.Start(t.Context(), redisproc.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	p := start(t, s.Addr())
	past, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer past.Close()
	require.NoError(t, past.SetDeadline(time.Now().Add(patience)))
	ask := func(c net.Conn, want string, args ...string) {
		t.Helper()
		send(t, c, command(args...))
		wants(t, c, want)
	}

	c := dial(t, p)
	ask(c, "+OK\r\n", "SET", "lock", "me", "NX", "PX", "60000")
	ask(c, "$-1\r\n", "SET", "lock", "other", "NX", "PX", "60000")

	// The command is done, its answer never comes.
	p.Set(Fault{DropReplies: 1, DropThenReset: true})
	send(t, c, command("SET", "a", "1"))
	wantsReset(t, c, "")
	ask(past, "$1\r\n1\r\n", "GET", "a")

	// The answer is cut in the middle.
	c = dial(t, p)
	ask(c, "+OK\r\n", "SET", "b", "0123456789")
	p.Set(Fault{CutReplyAfter: 7})
	send(t, c, command("GET", "b"))
	wantsReset(t, c, "$10\r\n01")

	// The command arrives when the partition is over.
	c = dial(t, p)
	p.Set(Fault{HoldUp: true})
	send(t, c, command("SET", "c", "1"))
	until(t, p, func(s Stats) bool { return s.Up.Waiting > 0 })
	ask(past, "$-1\r\n", "GET", "c")
	p.Heal()
	wants(t, c, "+OK\r\n")

	// The command never arrives.
	p.Set(Fault{BlackholeUp: true})
	send(t, c, command("SET", "d", "1"))
	until(t, p, func(s Stats) bool { return s.Up.Dropped > 0 })
	p.Heal()
	wantsReset(t, c, "")
	ask(past, "$-1\r\n", "GET", "d")

	// A server that is gone and comes back, at the same address.
	s.Kill()
	wantsNobody(t, p)
	require.NoError(t, s.Restart(t.Context(), true))
	ask(dial(t, p), "$-1\r\n", "GET", "lock")
}
