package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// also gives some calls a second name.
func (w *twins) also(c *seam.Call) {
	if w.rnd.IntN(4) > 0 {
		return
	}
	key := fmt.Sprint("lock:", w.rnd.IntN(4))
	if key == c.Key {
		return
	}
	c.Also = []seam.Names{{Key: key, LabelKey: labelKey(key), MarkKey: markKey(key), FenceKey: fencePrefix + key, WakeKey: wakePrefix + key}}
}

func storyExtendsFirst(t *testing.T, m mutant) string {
	return story(t, m, func(t *testing.T, mems []*memnode.Node, a, _ *Locker) string {
		lease, err := a.AcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		if _, _, ok := mems[0].Get("lock:y"); !ok && lease.Err() == nil {
			return "a lease went on without one of its names"
		}
		return ""
	})
}

func TestAcquireAll(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, mems []*memnode.Node, l *Locker) {
		one, err := l.Acquire(t.Context(), "b")
		require.NoError(t, err)
		_, err = l.AcquireAll(t.Context(), []string{"a", "b", "c"}, WithWait(300*time.Millisecond))
		require.ErrorIs(t, err, ErrHeld)
		synctest.Wait()
		_, _, ok := mems[0].Get("lock:a")
		require.False(t, ok)
		require.NoError(t, one.Release(t.Context()))
		all, err := l.AcquireAll(t.Context(), []string{"a", "b", "c", "a"}, WithLabel("me"))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, all.Names())
		require.Greater(t, all.Fence(), one.Fence())
		time.Sleep(10 * time.Second)
		require.NoError(t, all.Err(), "renewed")
		_, err = overMem(t, mems, WithMaxTTL(time.Second), WithTTL(time.Second)).TryAcquire(t.Context(), "c")
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, all.Release(t.Context()))
		synctest.Wait()
		for _, key := range []string{"lock:a", "lock:b", "lock:c", "redlock:l:lock:b"} {
			_, _, ok := mems[0].Get(key)
			require.False(t, ok, key)
		}
		next, err := l.Acquire(t.Context(), "c")
		require.NoError(t, err)
		require.Greater(t, next.Fence(), all.Fence())
		require.NoError(t, next.Release(t.Context()))
		_, err = l.AcquireAll(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig)
	})
}

// Two callers that name the same in another order.
func TestAcquireAllDoesNotDeadlock(t *testing.T) {
	fenced(t, []time.Duration{0, 0, 0}, func(t *testing.T, _ []*memnode.Node, l *Locker) {
		done := make(chan error)
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			go func() {
				var err error
				for range 100 {
					if err == nil {
						err = l.DoAll(t.Context(), names, func(context.Context) error { return nil })
					}
				}
				done <- err
			}()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}
