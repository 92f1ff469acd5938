package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/attack"
	"github.com/redlock-go/redlock/internal/redisproc"
)

func TestMain(m *testing.M) {
	if attack.ChildMain() { // the test binary as a client of chaos
		os.Exit(0)
	}
	if os.Getenv("REDLOCK_TEST_MAIN") != "" { // the test binary as the command itself
		os.Exit(Run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// said is what an invocation printed, and its exit code.
type said struct {
	code     int
	out, err string
}

// call runs the command line in this process.
func call(t *testing.T, env []string, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), args, env, strings.NewReader(""), &out, &errs)
	return said{code, out.String(), errs.String()}
}

// process prepares an invocation as a process of its own.
func process(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), "REDLOCK_TEST_MAIN=1"), env...)
	return cmd
}

// run runs an invocation as a process and waits.
func run(t *testing.T, env []string, args ...string) said {
	t.Helper()
	cmd := process(t, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); err != nil && !ok { //nolint:errorlint // what Run documents
		t.Fatal(err)
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// fleet is three real servers, sealed for a max TTL of a second or as given.
type fleet struct {
	servers []*redisproc.Server
	env     []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	servers, err := redisproc.StartN(context.Background(), 3, redisproc.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range servers {
			_ = s.Close()
		}
	})
	f := &fleet{servers: servers}
	f.env = []string{"REDLOCK_NODES=" + strings.Join(f.addrs(), ","), "REDLOCK_TTL=1s", "REDLOCK_MAX_TTL=1s"}
	require.Equal(t, said{0, "the nodes are sealed\n", ""}, call(t, f.env, "init"))
	return f
}

// addrs are where the servers listen.
func (f *fleet) addrs() (addrs []string) {
	for _, s := range f.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// keys are the lock keys on a server.
func (f *fleet) keys(t *testing.T, i int) []string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.servers[i].Addr()})
	defer c.Close()
	keys, err := c.Keys(t.Context(), "lock:*").Result()
	require.NoError(t, err)
	return keys
}

// seal is what stands at a server's seal.
func (f *fleet) seal(t *testing.T, i int) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.servers[i].Addr()})
	defer c.Close()
	return c.Get(t.Context(), "redlock:seal:lock:").Val()
}

// sets is how many SETs the first server has had.
func (f *fleet) sets(t *testing.T) (n int) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.servers[0].Addr()})
	defer c.Close()
	for line := range strings.Lines(c.Info(t.Context(), "commandstats").Val()) {
		if strings.HasPrefix(line, "cmdstat_set:") {
			_, err := fmt.Sscanf(line, "cmdstat_set:calls=%d", &n)
			require.NoError(t, err)
		}
	}
	return n
}

// free waits until no server has a lock key.
func (f *fleet) free(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i := range f.servers {
			if len(f.keys(t, i)) > 0 {
				return false
			}
		}
		return true
	}, waitFor, tick)
}

// script writes a shell script that the tests run under the lock.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.sh")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n%s\n", text), 0o700))
	return path
}
