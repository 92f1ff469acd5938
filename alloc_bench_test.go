package redlock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redisproc"
	"github.com/redlock-go/redlock/internal/seam"
)

func BenchmarkConnAcquire(b *testing.B) {
	servers := startServers(b, 1, redisproc.Options{})
	d := newRedisDialer(&redis.Options{Addr: servers[0].Addr()})
	conn, err := d.Dial(time.Second)
	require.NoError(b, err)
	defer conn.Close()
	replies := make([]seam.Reply, 2)
	require.NoError(b, conn.Do([]seam.Call{{Op: seam.Hello, SealKey: "s", QuarantineKey: "q"}}, replies[:1]))
	acquire := []seam.Call{{Op: seam.Acquire, Key: "k", Token: "t", TTL: time.Second}, {Op: seam.Check, SealKey: "s", QuarantineKey: "q"}}
	release := []seam.Call{{Op: seam.Release, Key: "k", Token: "t"}}
	b.ReportAllocs()
	for b.Loop() {
		clear(replies)
		_ = conn.Do(acquire, replies)
		clear(replies)
		_ = conn.Do(release, replies[:1])
	}
}

func BenchmarkPair(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(string(rune('0'+n)), func(b *testing.B) {
			servers := startServers(b, n, redisproc.Options{})
			l := overServers(b, servers)
			require.NoError(b, l.Init(b.Context()))
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.TryAcquire(ctx, "x")
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
