package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// example is a Locker over three nodes in memory, declared empty with Init. On
// real servers it is redlock.ParseNodes and redlock.New.
func example(opts ...redlock.Option) (*redlock.Locker, *redlocktest.Nodes) {
	nodes := redlocktest.NewNodes(3)
	quiet := redlock.WithLogger(slog.New(slog.DiscardHandler))
	locker, err := redlock.New(nodes.Nodes(), append([]redlock.Option{quiet}, opts...)...)
	if err != nil {
		log.Fatal(err)
	}
	if err := locker.Init(context.Background()); err != nil {
		log.Fatal(err)
	}
	return locker, nodes
}

func Example() {
	locker, nodes := example()
	defer locker.Close()

	nodes.At(2).Kill() // two of three still make a majority
	err := locker.Do(context.Background(), "invoice:42", func(context.Context) error {
		fmt.Println("sending the invoice, and nobody else is")
		return nil
	})
	fmt.Println(err)
	// Output:
	// sending the invoice, and nobody else is
	// <nil>
}

func ExampleNew() {
	nodes, err := redlock.ParseNodes("redis://:secret@redis1:6379", "redis2:6379", "redis3:6379")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := redlock.New(nodes, redlock.WithTTL(5*time.Second), redlock.WithKeyPrefix("shop:"))
	if err != nil {
		log.Fatal(err) // a *ConfigError; nothing was sent yet
	}
	defer locker.Close()
	fmt.Println(nodes)

	_, err = redlock.New(nodes, redlock.WithTTL(time.Minute))
	fmt.Println(err)
	// Output:
	// [redis1:6379 redis2:6379 redis3:6379]
	// redlock: TTL 1m0s: must be at most the max TTL, 10s; raise WithMaxTTL on every client alike, or use renewal
}

func ExampleParseNodes() {
	nodes, err := redlock.ParseNodes("redis1:6379", "rediss://user:secret@redis2:6380", "unix:///run/redis.sock")
	fmt.Println(nodes, err)

	_, err = redlock.ParseNodes("http://redis1")
	fmt.Println(errors.Is(err, redlock.ErrConfig))
	// Output:
	// [redis1:6379 redis2:6380 unix:/run/redis.sock] <nil>
	// true
}

func ExampleLocker_Acquire() {
	locker, _ := example()
	defer locker.Close()

	lease, err := locker.Acquire(context.Background(), "invoice:42") // waits while another has it
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Names(), lease.Err())
	fmt.Println(lease.Release(context.Background()))
	fmt.Println(lease.Release(context.Background()))
	// Output:
	// [invoice:42] <nil>
	// <nil>
	// redlock: lease already released
}

func ExampleLocker_TryAcquire() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.TryAcquire(context.Background(), "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())

	_, err = locker.TryAcquire(context.Background(), "invoice:42")
	switch {
	case errors.Is(err, redlock.ErrHeld):
		fmt.Println("somebody else has it")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("Redis is in trouble")
	}
	// Output:
	// somebody else has it
}

func ExampleLocker_Do() {
	locker, nodes := example()
	defer locker.Close()

	err := locker.Do(context.Background(), "invoice:42", func(ctx context.Context) error {
		for i := range nodes.Len() { // someone deletes the key by hand
			nodes.At(i).Delete("lock:invoice:42")
		}
		<-ctx.Done() // it ends when the lease does: stop working
		return context.Cause(ctx)
	}, redlock.WithTTL(100*time.Millisecond))

	var lost *redlock.LostError
	fmt.Println(errors.As(err, &lost), lost.Reason)
	// Output:
	// true taken
}

func ExampleGuard() {
	locker, _ := example()
	defer locker.Close()

	type order struct{ product string }
	sell := func(_ context.Context, o order) (string, error) { return "sold a " + o.product, nil }
	// The name is computed from the call's argument: buyers of one product queue
	// up, buyers of another do not wait for them.
	guarded := redlock.Guard(locker, func(o order) string { return "product:" + o.product }, sell)

	fmt.Println(guarded(context.Background(), order{"poster"}))
	// Output:
	// sold a poster <nil>
}

func ExampleFromContext() {
	locker, _ := example()
	defer locker.Close()

	_ = locker.Do(context.Background(), "invoice:42", func(ctx context.Context) error {
		lease, ok := redlock.FromContext(ctx) // deep in a call chain
		fmt.Println(ok, lease.Names())
		return nil
	})
	// Output:
	// true [invoice:42]
}

func ExampleLease_Context() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "invoice:42", redlock.WithTTL(50*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	<-lease.Context().Done()
	fmt.Println(time.Now().Before(lease.Until()), errors.Is(context.Cause(lease.Context()), redlock.ErrLost))
	fmt.Println(errors.Is(lease.Release(context.Background()), redlock.ErrLost))
	// Output:
	// true true
	// true
}

func ExampleLease_Extend() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "invoice:42", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())

	fmt.Println(lease.Extend(context.Background(), 5*time.Second))
	fmt.Println(time.Until(lease.Until()) > 4*time.Second)
	// Output:
	// <nil>
	// true
}

func ExampleLocker_Inspect() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "invoice:42", redlock.WithLabel("worker 7"))
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())

	s, err := locker.Inspect(context.Background(), "invoice:42")
	fmt.Println(s.Known, s.Held, s.Label, s.Token == lease.Token(), err)
	// Output:
	// true true worker 7 true <nil>
}

func ExampleLocker_Break() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "invoice:42", redlock.WithTTL(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}

	s, _ := locker.Inspect(context.Background(), "invoice:42")
	fmt.Println(locker.Break(context.Background(), "invoice:42", s.Token)) // this holder, no other
	<-lease.Context().Done()
	var lost *redlock.LostError
	fmt.Println(errors.As(lease.Err(), &lost), lost.Reason)
	// Output:
	// <nil>
	// true broken
}

func ExampleLocker_Init() {
	nodes := redlocktest.NewNodes(3)
	locker, err := redlock.New(nodes.Nodes(), redlock.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	// Without Init nodes that bear no seal may be nodes that forgot: they abstain.
	_, err = locker.TryAcquire(context.Background(), "invoice:42")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrQuarantined))
	// Output:
	// true true
}

func ExampleLocker_Check() {
	locker, nodes := example()
	defer locker.Close()
	nodes.At(1).SetMaxMemory(1<<20, "allkeys-lru")

	for _, r := range locker.Check(context.Background()) {
		for _, f := range r.Findings {
			if f.Severity == redlock.Problem {
				fmt.Println(r.Node, r.OK, f.What)
			}
		}
	}
	// Output:
	// mem1 false redlock: node mem1 maxmemory-policy allkeys-lru: would evict locks that are held; set maxmemory-policy noeviction on a server that carries locks
}

func ExampleWithWait() {
	locker, _ := example()
	defer locker.Close()
	lease, err := locker.Acquire(context.Background(), "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())

	// How long to wait and how long the lease lives are two settings.
	start := time.Now()
	_, err = locker.Acquire(context.Background(), "invoice:42", redlock.WithWait(50*time.Millisecond), redlock.WithTTL(5*time.Second))
	fmt.Println(errors.Is(err, redlock.ErrHeld), time.Since(start) >= 50*time.Millisecond)
	// Output:
	// true true
}

func ExampleWithHooks() {
	locker, _ := example(redlock.WithHooks(redlock.Hooks{
		AcquireDone: func(_ context.Context, e redlock.AcquireEvent) { fmt.Println("acquired", e.Name, e.Err) },
		Released:    func(_ context.Context, e redlock.ReleaseEvent) { fmt.Println("released", e.Names, e.Err) },
	}))
	defer locker.Close()
	_ = locker.Do(context.Background(), "invoice:42", func(context.Context) error { return nil })
	// Output:
	// acquired invoice:42 <nil>
	// released [invoice:42] <nil>
}
