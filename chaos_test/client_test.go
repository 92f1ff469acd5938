package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/chaos_test/history"
)

// clientEnv holds the order of a client process, a clientOrder as JSON.
const clientEnv = "REDLOCK_CHAOS_CLIENT"

// clientOrder is what a client process is told.
type clientOrder struct {
	Client     string
	File       string // where the history goes
	Addrs      []string
	Names      int
	Goroutines int
	End        int64 // of the run, in nanoseconds of CLOCK_MONOTONIC
	TTL        time.Duration
}

// settings are what every client of a run, and the test that prepares it, share.
func settings(ttl time.Duration) []redlock.Option {
	return []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl)}
}

// nodeTimeout is what the Locker makes of such a TTL by default.
func nodeTimeout(ttl time.Duration) time.Duration { return ttl / 10 }

func masters(addrs []string) []redlock.Node {
	nodes := make([]redlock.Node, len(addrs))
	for i, a := range addrs {
		nodes[i] = redlock.Master(&redis.Options{Addr: a})
	}
	return nodes
}

// clientMain is a client process: it locks and releases until the end of the
// run, writes what it saw, and counts what it leaves behind.
func clientMain(text string) error {
	var o clientOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	f, err := os.Create(o.File)
	if err != nil {
		return err
	}
	w := history.NewWriter(f)
	at, err := history.Now()
	if err != nil {
		return err
	}
	base := runtime.NumGoroutine()
	err = errors.Join(
		w.Write(&history.Record{Kind: history.Begin, Client: o.Client, At: at, End: o.End}),
		lockAway(&o, w, time.Duration(o.End-at)),
	)
	left := settle(base)
	at, nowErr := history.Now()
	return errors.Join(err, nowErr,
		w.Write(&history.Record{Kind: history.Close, Client: o.Client, At: at, Goroutines: left, BaseGoroutines: base}),
		w.Flush(), f.Close())
}

// settle waits until the goroutines are back to base, and says how many there
// are: a goroutine that has returned may still be counted for a moment.
func settle(base int) int {
	for range 100 {
		if runtime.NumGoroutine() <= base {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine()
}

// lockAway is the run of one client.
func lockAway(o *clientOrder, w *history.Writer, length time.Duration) error {
	l, err := redlock.New(masters(o.Addrs), settings(o.TTL)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	errs := make([]error, o.Goroutines)
	var wg sync.WaitGroup
	for g := range o.Goroutines {
		wg.Go(func() {
			for errs[g] == nil && ctx.Err() == nil {
				errs[g] = lockOnce(ctx, o, l, w)
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), l.Close())
}

// lockOnce is one acquisition, and one line of history.
func lockOnce(ctx context.Context, o *clientOrder, l *redlock.Locker, w *history.Writer) error {
	r := history.Record{Kind: history.Acquire, Client: o.Client, Name: fmt.Sprintf("chaos-%d", rand.IntN(o.Names))}
	var err error
	if r.At, err = history.Now(); err != nil {
		return err
	}
	lease, err := l.Acquire(ctx, r.Name)
	now, nowErr := history.Now()
	if nowErr != nil {
		return nowErr
	}
	if err != nil {
		r.Result, r.End, r.Error = history.Failed, now, err.Error()
		return w.Write(&r)
	}
	r.Acquired = now
	work(lease, o.TTL)
	if err := leave(lease, &r); err != nil {
		return err
	}
	return w.Write(&r)
}

// work holds for some milliseconds, and now and then for longer than the TTL,
// so that renewal has to carry the lease through the fault.
func work(lease *redlock.Lease, ttl time.Duration) {
	d := time.Duration(1+rand.IntN(5)) * time.Millisecond
	if rand.IntN(200) == 0 {
		d = ttl * 3 / 2
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-lease.Context().Done():
	}
}

// leave ends a hold. Released is a moment at which the holder still relied on
// the lease for good reason: the clock is read first and the lease asked after,
// and a lost lease counts only to the end of its validity.
func leave(lease *redlock.Lease, r *history.Record) error {
	now, err := history.Now()
	if err != nil {
		return err
	}
	r.Result, r.Released = history.OK, now
	if err := lease.Err(); err != nil {
		r.Lost, r.Error = true, err.Error()
		again, err := history.Now()
		if err != nil {
			return err
		}
		r.Released = min(r.Released, again+int64(time.Until(lease.Until())))
	}
	if err := lease.Release(context.Background()); err != nil && !r.Lost {
		r.Error = err.Error()
		if r.Lost = errors.Is(err, redlock.ErrLost); !r.Lost {
			r.Result = history.Unknown
		}
	}
	return nil
}
