package chaos_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// One of five nodes hangs, as a machine that swaps or a stopped process does: it
// accepts what is sent and answers nothing. Nobody is to notice, and what lies
// in its buffers must not become a lock when it goes on.
func TestHungNodeCostsNothing(t *testing.T) {
	const n, pairs = 5, 400
	servers, addrs := startServers(t, n)
	initNodes(t, addrs)
	l := newLocker(t, addrs) // the TTL of 10 s outlives the test: a key that is gone was deleted
	for range 20 {
		pair(t, l)
	}
	base, lanes := goroutines()
	most := base
	var took []time.Duration

	servers[2].Stop()
	defer servers[2].Cont()
	for range pairs {
		took = append(took, pair(t, l))
		other, lane := goroutines()
		most, lanes = max(most, other), max(lanes, lane)
	}
	slices.Sort(took)
	t.Logf("%d pairs with a hung node: p50 %v, p99 %v, slowest %v; goroutines %d before, at most %d, and at most %d lanes",
		pairs, took[pairs/2], took[pairs*99/100], took[pairs-1], base, most, lanes)
	if most > base+2*n {
		t.Errorf("goroutines grew from %d to %d, by more than 2N", base, most)
	}
	if lanes > 2*8*n { // of two Lockers
		t.Errorf("%d lanes, more than 8 per node and Locker", lanes)
	}

	servers[2].Cont()
	c := admin(t, addrs[2])
	clean := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		keys, err := lockKeys(ctx, c)
		return err == nil && len(keys) == 0
	}
	after := eventually(t, time.Second, "the node that hung has no lock key", clean)
	t.Logf("no lock key left on it %v after SIGCONT", after)
	for range 50 { // nor does one come later out of some buffer
		time.Sleep(10 * time.Millisecond)
		if !clean() {
			t.Fatal("a lock key came back on the node that had hung")
		}
	}
	for _, a := range addrs {
		mustBeClean(t, a)
	}
	mustVoteAgain(t, servers[0].Stop, servers[0].Cont, servers[4].Stop, servers[4].Cont, l)
}

// goroutines counts them, those of lanes apart: a machine that is slow enough for
// a round trip of 0.3 ms gets more lanes, up to eight per node, hung or not.
func goroutines() (others, lanes int) {
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	lanes = strings.Count(stacks, ".(*runner).work(")
	return strings.Count(stacks, "\ngoroutine ") + 1 - lanes, lanes
}

// pair is one acquire and release, both of which have to succeed.
func pair(t *testing.T, l *redlock.Locker) time.Duration {
	t.Helper()
	start := time.Now()
	lease, err := l.TryAcquire(t.Context(), "pair")
	if err != nil {
		t.Fatalf("TryAcquire: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
	return time.Since(start)
}

// mustVoteAgain stops two others, so that the node that hung makes the majority.
func mustVoteAgain(t *testing.T, stop1, cont1, stop2, cont2 func(), l *redlock.Locker) {
	t.Helper()
	stop1()
	stop2()
	defer cont1()
	defer cont2()
	eventually(t, 2*time.Second, "a lock with the vote of the node that hung", func() bool {
		lease, err := l.TryAcquire(t.Context(), "vote")
		if err != nil {
			if !errors.Is(err, redlock.ErrNoQuorum) {
				t.Fatalf("TryAcquire: %v", err)
			}
			return false
		}
		return lease.Release(t.Context()) == nil
	})
}
