package redlock_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// The tests of this file starve a client of time, so they run in real time.

// Where busy goroutines leave the renewals little time, leases are kept; and
// one that is not is known to be lost before its key is gone.
func TestEXT12_BusyGoroutinesEatNoRenewal(t *testing.T) {
	w := newWorld(t, 3)
	var d diary
	c := w.client(d.hooks())
	leases := make([]*redlock.Lease, 200)
	for i := range leases {
		leases[i] = c.held(fmt.Sprint("name", i), redlock.WithTTL(time.Second))
	}
	before := runtime.GOMAXPROCS(1)
	var stop atomic.Bool
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() {
			for !stop.Load() { // burns its whole time slice, again and again
			}
		})
	}
	wrong := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
		for i, lease := range leases {
			stands := 0
			for _, n := range w.nodes {
				if token, _, _ := n.Get(fmt.Sprint("lock:name", i)); token == lease.Token() {
					stands++
				}
			}
			if stands < 2 && lease.Err() == nil { // asked after the keys were looked at
				wrong++
			}
		}
	}
	stop.Store(true)
	busy.Wait()
	runtime.GOMAXPROCS(before)
	require.Zero(t, wrong, "valid in the holder's eyes, gone on the nodes")
	for _, lease := range leases {
		if lease.Err() == nil {
			require.NoError(t, lease.Release(t.Context()))
		}
	}
	renewed, _, lost := d.read()
	t.Logf("%d renewals, %d of 200 leases lost", len(renewed), len(lost))
	require.NotEmpty(t, renewed)
}

// A process that was stopped for longer than its lease knows so with its first
// look at it.
func TestEXT12_APausedProcessKnowsThatItLost(t *testing.T) {
	opts := []redlock.Option{redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second)}
	if addrs, isChild := childAddrs(); isChild {
		lease, err := overAddrs(t, addrs, opts...).Acquire(t.Context(), "x")
		require.NoError(t, err)
		for look := time.NewTicker(time.Millisecond); ; <-look.C {
			at := time.Now().UnixNano()
			if err := lease.Err(); err != nil {
				fmt.Println("lost", err)
				return
			}
			fmt.Println("valid", at) // it was at a time after this
		}
	}
	servers := realServers(t)
	l := overReal(t, servers, opts...)
	require.NoError(t, l.Init(t.Context()))
	c := startChild(t, servers)
	for range 1200 { // more than a second: it renews
		_, ok := c.next("valid")
		require.True(t, ok)
	}
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	lease, err := l.Acquire(t.Context(), "x", redlock.WithWait(10*time.Second))
	require.NoError(t, err)
	ours := time.Now().UnixNano()
	require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	lost := false
	for c.lines.Scan() {
		var at int64
		var why string
		if n, _ := fmt.Sscanf(c.lines.Text(), "valid %d", &at); n == 1 {
			require.Less(t, at, ours, "it believed in its lease after we had it: %s", strconv.FormatInt(at-ours, 10))
		} else if n, _ := fmt.Sscanf(c.lines.Text(), "lost %s", &why); n == 1 {
			lost = true
		}
	}
	require.True(t, lost)
	require.NoError(t, lease.Err(), "what the other does when it wakes is nothing to us")
	require.NoError(t, lease.Release(t.Context()))
}

// The same crowd as in virtual time, on real servers and through the client
// with a small pool that the application has.
func TestTIM11_TheApplicationsPoolIsNotUsed(t *testing.T) {
	servers := realServers(t)
	crowd := newCrowd()
	var nodes []redlock.Node
	for _, s := range servers {
		shared := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 5, MaxActiveConns: 5})
		t.Cleanup(func() { require.NoError(t, shared.Close()) })
		for range 5 { // the application has taken them all
			conn := shared.Conn()
			require.NoError(t, conn.Ping(t.Context()).Err())
			t.Cleanup(func() { require.NoError(t, conn.Close()) })
		}
		nodes = append(nodes, redlock.Client(shared))
	}
	l, err := redlock.New(nodes, crowd.hooks())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, l.Init(t.Context()))
	lease, err := l.Acquire(t.Context(), "x", redlock.WithTTL(time.Second))
	require.NoError(t, err)
	crowd.join(t, l, 2000)
	over, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	select {
	case <-over.Done():
	case <-lease.Context().Done():
	}
	require.NoError(t, lease.Err())
	var err2 error
	d := took(func() { err2 = lease.Release(t.Context()) })
	require.NoError(t, err2)
	require.LessOrEqual(t, d, 250*time.Millisecond, "the node timeout")
	crowd.judge(t, 6)
}
