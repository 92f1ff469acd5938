package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/chaos_test/history"
)

// missing ends a test that lacks what it needs. On CI that is a failure: there a
// skip would pass for a proof.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// newLocker makes a Locker that is closed with the test.
func newLocker(t *testing.T, addrs []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(masters(addrs), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// initNodes declares new nodes empty.
func initNodes(t *testing.T, addrs []string, opts ...redlock.Option) {
	t.Helper()
	if err := newLocker(t, addrs, opts...).Init(t.Context()); err != nil {
		t.Fatalf("Init: %v", err)
	}
}

// admin is a plain client of one node, for looking and for breaking.
func admin(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, Protocol: 2, PoolSize: 1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lockKeys are the keys of locks on a node: all but the seal and the quarantine,
// which are the node's own.
func lockKeys(ctx context.Context, c *redis.Client) ([]string, error) {
	keys, err := c.Keys(ctx, "*").Result()
	return slices.DeleteFunc(keys, func(k string) bool {
		return strings.HasPrefix(k, "redlock:seal:") || strings.HasPrefix(k, "redlock:quarantine:")
	}), err
}

// mustBeClean fails the test if keys of locks are left on a node.
func mustBeClean(t *testing.T, addr string) {
	t.Helper()
	keys, err := lockKeys(t.Context(), admin(t, addr))
	if err != nil || len(keys) > 0 {
		t.Errorf("%s: keys left behind: %q, %v", addr, keys, err)
	}
}

// eventually polls until ok says so.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// monotonic reads the clock of the histories.
func monotonic(t *testing.T) int64 {
	t.Helper()
	now, err := history.Now()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// startClients starts client processes that lock until the run is over. The
// function that it returns waits for them, and gives their histories.
func startClients(t *testing.T, n int, length time.Duration, o clientOrder) (wait func() []string) {
	t.Helper()
	dir := t.TempDir()
	o.End = monotonic(t) + int64(length)
	var cmds []*exec.Cmd
	var files []string
	var said []*strings.Builder
	for i := range n {
		o.Client = fmt.Sprintf("client%d", i)
		o.File = filepath.Join(dir, o.Client+".jsonl")
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), length+30*time.Second)
		t.Cleanup(cancel)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), clientEnv+"="+string(text))
		out := new(strings.Builder)
		c.Stdout, c.Stderr = out, out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, files, said = append(cmds, c), append(files, o.File), append(said, out)
	}
	waited := false
	wait = func() []string {
		waited = true
		for i, c := range cmds {
			if err := c.Wait(); err != nil {
				t.Errorf("client %d: %v\n%.4000s", i, err, said[i])
			}
		}
		return files
	}
	t.Cleanup(func() {
		if !waited { // the test failed before
			for _, c := range cmds {
				_ = c.Process.Kill()
				_ = c.Wait()
			}
		}
	})
	return wait
}

// judged has the judge, a program of its own, read the histories.
func judged(t *testing.T, files []string, flags ...string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "judge")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./judge").CombinedOutput(); err != nil {
		t.Fatalf("building the judge: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), bin, append(flags, files...)...).CombinedOutput()
	t.Logf("judge %s:\n%s", strings.Join(flags, " "), out)
	if err != nil {
		t.Errorf("the judge condemns the run: %v", err)
	}
}
