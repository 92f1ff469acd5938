package redlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
	"github.com/redlock-go/redlock/redlocktest"
)

// floating is an address behind which another server can be put.
type floating struct {
	mu sync.Mutex
	at *memnode.Node
}

func (f *floating) to(n *memnode.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = n
}

func (f *floating) Dial(timeout time.Duration) (seam.Conn, error) {
	f.mu.Lock()
	n := f.at
	f.mu.Unlock()
	return n.Dialer().Dial(timeout)
}

func (*floating) Node() string { return "floating:6379" }
func (*floating) DB() int      { return 0 }

// An address that leads to another, empty server is a node that forgot: it is
// found at once, abstains for its quarantine, and then counts.
func TestNODE07_AnotherMachineBehindTheName(t *testing.T) {
	virtual(t, 3, func(t *testing.T, w *world) {
		newcomer := memnode.New("newcomer", nil)
		address := &floating{at: w.nodes[0]}
		l, err := redlock.New([]redlock.Node{
			redlock.NodeOver(address), redlock.NodeOver(w.nodes[1].Dialer()), redlock.NodeOver(w.nodes[2].Dialer()),
		})
		require.NoError(t, err)
		defer l.Close()
		held, err := l.Acquire(t.Context(), "held")
		require.NoError(t, err)
		w.pass(time.Second)

		address.to(newcomer)
		w.nodes[0].Demote() // it answers READONLY on the connections that are open
		for range 10 {      // every 200 ms, for 2 s
			require.NoError(t, l.Do(t.Context(), "x", nothing))
			w.pass(200 * time.Millisecond)
		}
		require.Contains(t, newcomer.Keys(), "redlock:seal:lock:", "it is not used after 2 s")
		w.nodes[1].Kill()
		_, err = l.TryAcquire(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrQuarantined, "an empty machine has no vote yet")
		w.nodes[1].Start()
		w.pass(13 * time.Second) // max TTL 10 s: the quarantine is 12.1 s
		w.nodes[1].Kill()
		require.NoError(t, l.Do(t.Context(), "x", nothing, redlock.WithWait(time.Second)), "and now it has one")
		require.NoError(t, held.Err())
		value, _, _ := newcomer.Get("lock:held")
		require.Equal(t, held.Token(), value, "the lease was brought along")
		require.NoError(t, held.Release(t.Context()))
		w.nodes[1].Start()
	})
}

// There is no way to run without the lock, and a SET whose answer was lost does
// not let two run, also where a best effort is all that was asked for.
func TestNODE09_NobodyRunsWithoutTheLock(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"strict": {redlock.WithMinHold(0)}, "best effort": {redlock.WithBestEffort()},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, w *world) {
				var ran, inside atomic.Int32
				work := func(ctx context.Context) error {
					ran.Add(1)
					if inside.Add(1) > 1 {
						t.Error("two run at a time")
					}
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
					inside.Add(-1)
					return nil
				}
				var wg sync.WaitGroup
				run := func() (broken int) {
					results := make(chan error, 20)
					for range 4 {
						c := w.client(opts...)
						for range 5 {
							wg.Go(func() { results <- c.Do(t.Context(), "x", work, redlock.WithWait(3*time.Second)) })
						}
					}
					wg.Wait()
					for range 20 {
						if err := <-results; err != nil {
							require.True(t, errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrHeld), "%v", err)
							broken++
						}
					}
					return broken
				}
				w.first(2, func(n *memnode.Node) { n.LoseReplies(true) })
				require.Equal(t, 20, run())
				require.Zero(t, ran.Load(), "without a majority nothing is run")
				time.AfterFunc(time.Second, func() { w.first(2, func(n *memnode.Node) { n.LoseReplies(false) }) })
				w.first(2, func(n *memnode.Node) { n.LoseReplies(true) })
				require.Zero(t, run())
				require.Equal(t, int32(20), ran.Load())
			}, opts...)
		})
	}
}

// A lease is no value that could be stored and read back: what comes out of a
// snapshot of the process later than its end is refused, and so is a copy in text.
func TestTTL08_ARestoredLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newMovedClock()
		l, nodes := redlocktest.NewLocker(t, 3, redlock.WithClock(clock))
		other := nodes.NewLocker(t)
		lease, err := l.Acquire(t.Context(), "x", redlock.WithoutRenewal())
		require.NoError(t, err)
		text, err := json.Marshal(lease)
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(text))
		require.NotContains(t, fmt.Sprintf("%v %+v", lease, lease), lease.Token())

		// The machine is frozen, and restored from the image an hour later.
		for i := range 3 {
			nodes.At(i).Delete("lock:x")
		}
		theirs, err := other.Acquire(t.Context(), "x")
		require.NoError(t, err)
		synctest.Wait()
		clock.move(time.Hour, 0)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.Error(t, lease.Context().Err())
		require.ErrorIs(t, context.Cause(lease.Context()), redlock.ErrLost)
		require.ErrorIs(t, lease.Extend(t.Context(), time.Second), redlock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrLost)
		time.Sleep(time.Second)
		for i := range 3 {
			value, _, _ := nodes.At(i).Get("lock:x")
			require.Equal(t, theirs.Token(), value)
		}
		require.NoError(t, theirs.Release(t.Context()))
	})
}
