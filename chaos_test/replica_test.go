package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

const sealKey = "redlock:seal:lock:"

// A master that was made a replica of a lagging copy and a master again has lost
// the lock, and nothing that a client sees at its connection tells: the
// connection lives on, with its CLIENT ID, the run_id is the same, and the seal
// in the copied data is the expected one. Only master_replid has changed. A lock
// that looks at the seal alone grants the name twice here; it was tried.
func TestReplicaOfALaggingCopyAndBack(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) { laggingCopy(t, n) })
	}
}

func laggingCopy(t *testing.T, n int) {
	const ttl = 3 * time.Second
	_, addrs := startServers(t, n+1)
	copied, addrs := addrs[n], addrs[:n]
	opts := append(settings(ttl), redlock.WithoutRenewal())
	node, replica := admin(t, addrs[0]), admin(t, copied)

	// The copy holds the seal, and is cut before the lease. It is attached before
	// the seal is written, because a master's first replica changes its
	// master_replid.
	follow(t, replica, addrs[0])
	initNodes(t, addrs, opts...)
	eventually(t, 5*time.Second, "the seal on the copy", func() bool { return get(t, replica, sealKey) != "" })
	command(t, replica, "replicaof", "no", "one")

	holder, rival := newLocker(t, addrs, opts...), newLocker(t, addrs, opts...)
	lease, err := holder.Acquire(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rival.TryAcquire(t.Context(), "n"); !errors.Is(err, redlock.ErrHeld) {
		t.Fatalf("the rival before the fault: %v, want ErrHeld", err)
	}
	if n == 3 {
		// The lease stands on the nodes 0 and 1 alone, as if node 2 had been
		// away. Now node 0 decides.
		command(t, admin(t, addrs[2]), "del", "lock:n")
	}
	before, seal := clientIDs(t, node), get(t, node, sealKey)

	follow(t, node, copied)
	command(t, node, "replicaof", "no", "one")

	// The fault is what it should be: else the test proves nothing.
	if got := get(t, node, "lock:n"); got != "" {
		t.Fatalf("the node still has the lock (%s)", got)
	}
	if got := get(t, node, sealKey); got != seal || seal == "" {
		t.Fatalf("the seal changed from %q to %q", seal, got)
	}
	if after := clientIDs(t, node); !slices.Equal(before, after) {
		t.Fatalf("the clients' connections changed from %v to %v", before, after)
	}

	_, err = rival.TryAcquire(t.Context(), "n")
	if err == nil {
		t.Fatalf("two holders: the node voted with a seal from before its change of role; the first says %v", lease.Err())
	}
	// With N = 3 the two other nodes voted, one for the holder: that is ErrHeld.
	want := map[int]error{1: redlock.ErrNoQuorum, 3: redlock.ErrHeld}[n]
	if !errors.Is(err, want) || !errors.Is(err, redlock.ErrQuarantined) {
		t.Errorf("the rival was refused with %v, want %v and quarantine", err, want)
	}
	if got := get(t, node, "lock:n"); got != "" {
		eventually(t, time.Second, "the refused attempt is undone", func() bool { return get(t, node, "lock:n") == "" })
	}

	second, err := rival.Acquire(t.Context(), "n", redlock.WithWait(10*time.Second))
	if err != nil {
		t.Fatalf("the rival's turn: %v", err)
	}
	late := time.Since(lease.Until())
	t.Logf("second holder %v after the end of the first", late)
	if late < 0 {
		t.Errorf("two holders: the second %v before the end of the first", -late)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	_ = lease.Release(t.Context())
}

// follow makes a server the replica of another, and waits for the data.
func follow(t *testing.T, c *redis.Client, master string) {
	t.Helper()
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	command(t, c, "replicaof", host, port)
	eventually(t, 10*time.Second, "a replica in step", func() bool {
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

func command(t *testing.T, c *redis.Client, args ...any) {
	t.Helper()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// get is a key's value, "" when there is none.
func get(t *testing.T, c *redis.Client, key string) string {
	t.Helper()
	v, err := c.Get(context.WithoutCancel(t.Context()), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

// clientIDs are the connections of lock clients on a server.
func clientIDs(t *testing.T, c *redis.Client) []string {
	t.Helper()
	list, err := c.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(list) {
		if strings.Contains(line, " name=redlock ") {
			ids = append(ids, strings.Fields(line)[0])
		}
	}
	if len(ids) == 0 {
		t.Fatalf("no connection of a lock client in %q", list)
	}
	slices.Sort(ids)
	return ids
}
