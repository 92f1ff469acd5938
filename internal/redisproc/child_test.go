package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// Where redis-server is missing, Start says how to get it.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Options{})
	require.ErrorContains(t, err, "apt-get install redis-server")
	require.ErrorIs(t, err, exec.ErrNotFound)
	_, err = StartN(t.Context(), 2, Options{})
	require.ErrorIs(t, err, exec.ErrNotFound)
}

// CI must not pass because nothing was tested.
func TestMissingFailsInCI(t *testing.T) {
	for ci, want := range map[string]string{"true": "--- FAIL: TestKill", "": "--- SKIP: TestKill"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$", "-test.v")
		cmd.Env = append(os.Environ(), "CI="+ci, "PATH="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.Equal(t, ci == "true", err != nil, "%s", out)
		require.Contains(t, string(out), want)
		require.Contains(t, string(out), "redis-server is not installed")
	}
}

// A server dies with the process that started it, even by SIGKILL, when there
// is nobody left who could clean up.
func TestDiesWithItsParent(t *testing.T) {
	needRedis(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sends a signal when the parent dies")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var addr, dir string
	var pid int
	_, err = fmt.Sscan(line, &addr, &pid, &dir)
	require.NoError(t, err, line)
	defer os.RemoveAll(dir) // the child cannot
	require.False(t, ended(pid))

	cancel()
	require.Error(t, cmd.Wait())
	until(t, "the server ends", func() bool { return ended(pid) })
	until(t, "and with its last thread the port", func() bool {
		_, err := net.Dial("tcp", addr)
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}
