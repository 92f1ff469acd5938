package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// Five nodes in containers, each at its own port with its data on disk. Two are
// killed in the middle of what the clients do, and come back later with what
// they had. A restart changes a node's master_replid, so they abstain for Q, and
// then vote again.
func TestContainersKilledAndStartedAgain(t *testing.T) {
	const (
		ttl    = time.Second
		q      = ttl + ttl/100 + 2*time.Second
		length = 16 * time.Second
	)
	nodes, addrs := startNodes(t, 5)
	initNodes(t, addrs, settings(ttl)...)
	wait := startClients(t, 3, length, clientOrder{Addrs: addrs, Names: 4, Goroutines: 4, TTL: ttl})

	time.Sleep(length / 4)
	nodes[1].kill()
	nodes[3].kill()
	t.Logf("killed %s and %s", addrs[1], addrs[3])

	time.Sleep(length / 4)
	nodes[1].start()
	nodes[3].start()
	back := time.Now()
	l := newLocker(t, addrs, settings(ttl)...)
	eventually(t, 2*q, "all five nodes are sound", func() bool {
		time.Sleep(50 * time.Millisecond) // a check is work for the nodes
		return allSound(t.Context(), l)
	})
	abstained := time.Since(back)
	t.Logf("started them again; they vote %v later, Q is %v", abstained.Round(time.Millisecond), q)
	if abstained < q-time.Second { // it may have begun as soon as a client found them
		t.Errorf("the nodes that came back abstained for %v only", abstained)
	}

	files := wait()
	judged(t, files, "-waiting", "-node-timeout", nodeTimeout(ttl).String(), "-slack", "1s", "-max-gap", "3s", "-min-grants", "200")

	for _, a := range addrs {
		mustBeClean(t, a)
	}

	// Without two others there is no majority but with the two that were killed.
	nodes[0].kill()
	nodes[2].kill()
	lease, err := l.Acquire(t.Context(), "needs both", redlock.WithWait(2*time.Second))
	if err != nil {
		t.Fatalf("the two nodes that came back do not vote: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	for _, i := range []int{1, 3, 4} {
		mustBeClean(t, addrs[i])
	}
}

func allSound(ctx context.Context, l *redlock.Locker) bool {
	for _, r := range l.Check(ctx) {
		if !r.OK {
			return false
		}
	}
	return true
}
