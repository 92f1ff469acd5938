package chaos_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// The crash that breaks textbook Redlock: a lease stands on a bare majority, one
// node of it comes back empty, and with the third node it could make a second
// majority. It abstains until everything that it forgot has ended, and the
// holder's renewal puts the key back there, so the holder does not even notice.
func TestForgetfulNodeMakesNoSecondHolder(t *testing.T) {
	const ttl = time.Second
	const q = ttl + ttl/100 + 2*time.Second
	servers, addrs := startServers(t, 3)
	initNodes(t, addrs, settings(ttl)...)
	holder, rival := newLocker(t, addrs, settings(ttl)...), newLocker(t, addrs, settings(ttl)...)
	if _, err := rival.Inspect(t.Context(), "n"); err != nil { // so that it has connections before the fault
		t.Fatal(err)
	}

	servers[2].Kill() // the third node is dead: the lease stands on a bare majority
	lease, err := holder.Acquire(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Restart(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	key, c := "lock:n", admin(t, addrs[1])
	readded := eventually(t, ttl, "the renewal puts the key back", func() bool {
		got, err := c.Get(t.Context(), key).Result()
		return err == nil && got == lease.Token()
	})
	t.Logf("key back on the emptied node after %v", readded)

	// The rival asks all the time, past the end of the quarantine.
	abstained, held := 0, 0
	var last time.Duration // when the node was last seen to abstain
	for time.Since(back) < q+2*time.Second {
		got, err := rival.TryAcquire(t.Context(), "n")
		switch {
		case err == nil:
			t.Fatalf("second holder (%s) %v after the restart; the first says %v", got.Token(), time.Since(back), lease.Err())
		case errors.Is(err, redlock.ErrQuarantined):
			abstained, last = abstained+1, time.Since(back)
		case errors.Is(err, redlock.ErrHeld):
			held++
		}
		if err := lease.Err(); err != nil {
			t.Fatalf("the holder lost its lease %v after the restart: %v", time.Since(back), err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("rival refused %d times by quarantine (the last %v after the restart, Q is %v), %d times as held", abstained, last, q, held)
	if last < q-200*time.Millisecond {
		t.Errorf("the node abstained for %v only, Q is %v", last, q)
	}
	if held == 0 {
		t.Error("the node did not vote again after its quarantine")
	}

	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release after all that: %v", err)
	}
	after, err := rival.Acquire(t.Context(), "n", redlock.WithWait(2*time.Second))
	if err != nil {
		t.Fatalf("the rival's turn: %v", err)
	}
	if err := after.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	mustBeClean(t, addrs[0])
	mustBeClean(t, addrs[1])
}

// The same without a holder's renewal to help: every lease that the nodes forgot
// must have ended before they grant again, also when all of them forgot.
func TestAllNodesForget(t *testing.T) {
	const ttl = time.Second
	servers, addrs := startServers(t, 3)
	initNodes(t, addrs, settings(ttl)...)
	holder, rival := newLocker(t, addrs, settings(ttl)...), newLocker(t, addrs, settings(ttl)...)
	lease, err := holder.Acquire(t.Context(), "n", redlock.WithoutRenewal())
	if err != nil {
		t.Fatal(err)
	}
	until := lease.Until()
	for _, s := range servers {
		if err := s.Restart(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	second, err := rival.Acquire(t.Context(), "n", redlock.WithWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("second holder %v after the restart of all three, %v after the first one's end", time.Since(start), time.Since(until))
	if time.Now().Before(until) {
		t.Errorf("two holders: the second before %v, the end of the first", until)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	_ = lease.Release(t.Context()) // it ended long ago, and says so
}
