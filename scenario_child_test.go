package redlock_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Whenever a client is killed, what it leaves has a TTL.
func TestACQ07_AKilledClientLeavesNoImmortalKey(t *testing.T) {
	opts := []redlock.Option{redlock.WithMaxTTL(time.Second), redlock.WithTTL(500 * time.Millisecond)}
	if addrs, isChild := childAddrs(); isChild {
		cycleForEver(t, overAddrs(t, addrs, opts...))
		return
	}
	servers := realServers(t)
	require.NoError(t, overReal(t, servers, opts...).Init(t.Context()))
	cycles, left := 0, 0
	for kills := 0; cycles < 1000 || kills < 12; kills++ {
		c := startChild(t, servers)
		_, ok := c.next("cycle")
		require.True(t, ok, "the child got nowhere")
		at := time.NewTimer(time.Duration(20+rand.IntN(100)) * time.Millisecond)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			<-at.C
			c.stop()
		}()
		for ok {
			cycles++
			_, ok = c.next("cycle")
		}
		<-killed
		_ = c.Wait()
		for _, s := range servers {
			left += mortal(t, s)
		}
	}
	require.NotZero(t, left, "no child died with a lock: nothing was tested")
	t.Logf("%d cycles, %d keys of the dead were found", cycles, left)
}

// cycleForEver is a client at work.
func cycleForEver(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for i := 0; ; i++ {
		opts := []redlock.LockOption{redlock.WithWait(10 * time.Second)}
		if i%2 == 0 {
			opts = append(opts, redlock.WithLabel("a child"))
		}
		if i%3 == 0 {
			opts = append(opts, redlock.WithMinHold(50*time.Millisecond))
		}
		lease, err := l.Acquire(t.Context(), fmt.Sprint("name", i%20), opts...)
		require.NoError(t, err)
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		require.NoError(t, lease.Release(t.Context()))
		fmt.Println("cycle", i)
	}
}

// mortal insists that every key but the seal dies, and says how many there are
// that were not released: those keep more than the min hold.
func mortal(t *testing.T, s *realServer) (n int) {
	t.Helper()
	keys, err := s.admin.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, "redlock:seal:") {
			continue
		}
		ttl, err := s.admin.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		if ttl == -2 {
			continue // it died between the two questions
		}
		require.GreaterOrEqual(t, ttl, time.Duration(0), "%s has no TTL", key)
		if strings.HasPrefix(key, "redlock:w:") {
			require.LessOrEqual(t, ttl, 5*time.Second, "%s outlives its waiters", key)
			continue
		}
		require.LessOrEqual(t, ttl, time.Second, "%s outlives the largest TTL", key)
		if ttl > 50*time.Millisecond {
			n++
		}
	}
	return n
}

// Tokens of processes that start at the same moment never collide.
func TestACQ08_TokensOfManyProcessesDiffer(t *testing.T) {
	const processes, each = 8, 1250
	if _, isChild := childAddrs(); isChild {
		l, _ := redlocktest.NewLocker(t, 1)
		for i := range each {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("name", i))
			require.NoError(t, err)
			fmt.Println("token", lease.Token())
			require.NoError(t, lease.Release(t.Context()))
		}
		return
	}
	children := make([]*child, processes)
	for i := range children {
		children[i] = startChild(t, nil)
	}
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for _, c := range children {
		wg.Go(func() {
			for token, ok := c.next("token"); ok; token, ok = c.next("token") {
				mu.Lock()
				seen[token] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, processes*each, "all differ")
	for token := range seen {
		raw, err := hex.DecodeString(strings.ReplaceAll(token, "-", ""))
		require.NoError(t, err)
		require.Len(t, raw, 16)
		require.Len(t, token, 36)
	}
}
