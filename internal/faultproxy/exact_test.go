package faultproxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noise is n bytes that no other seed gives.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// roundTrip sends text in pieces of many sizes to an echo, and reads it back
// until the FIN that answers its own.
func roundTrip(t *testing.T, c *net.TCPConn, seed int, text []byte) {
	t.Helper()
	var sent sync.WaitGroup
	defer sent.Wait()
	sent.Go(func() {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(1<<r.IntN(17)))
			if _, err := c.Write(rest[:n]); !assert.NoError(t, err) {
				return
			}
			rest = rest[n:]
		}
		assert.NoError(t, c.CloseWrite())
	})
	got, err := io.ReadAll(c)
	assert.True(t, err == nil && bytes.Equal(text, got), "connection %d: %d bytes came back, not the %d sent; %v", seed, len(got), len(text), err)
}

// roundTrips is what many connections send at once.
func roundTrips(t *testing.T, p *Proxy, conns, size int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range conns {
		c := dial(t, p)
		all.Go(func() { roundTrip(t, c, i, noise(i, size)) })
	}
	all.Wait()
}

func TestNoFaultIsByteExact(t *testing.T) {
	const conns, size = 48, 300_000
	p := start(t, echo(t).Addr().String())
	roundTrips(t, p, conns, size)
	until(t, p, func(s Stats) bool { return s.Open == 0 })
	want := Flow{Passed: conns * size}
	require.Equal(t, Stats{Accepted: conns, Up: want, Down: want}, p.Stats())
}

// Hold, Delay and RefuseNew lose nothing, however often they come and go.
func TestFaultsThatLoseNothingAreByteExact(t *testing.T) {
	const conns, size = 12, 400_000
	p := start(t, echo(t).Addr().String())
	stop := make(chan struct{})
	var shakers sync.WaitGroup
	shaker := func(seed int) {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			f := Fault{RefuseNew: r.IntN(4) == 0, HoldUp: r.IntN(4) == 0, HoldDown: r.IntN(4) == 0}
			if r.IntN(4) == 0 {
				f.DelayUp, f.DelayDown = time.Duration(r.IntN(3e6)), time.Duration(r.IntN(3e6))
			}
			p.Set(f)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}
	var all sync.WaitGroup
	for i := range conns { // they connect before anything is refused
		c := dial(t, p)
		all.Go(func() { roundTrip(t, c, i, noise(i, size)) })
	}
	until(t, p, func(s Stats) bool { return s.Accepted == conns })
	for i := range 2 {
		shakers.Go(func() { shaker(i) })
	}
	all.Wait()
	close(stop)
	shakers.Wait()
	p.Heal()
	until(t, p, func(s Stats) bool { return s.Open == 0 })
	want := Flow{Passed: conns * size}
	require.Equal(t, Stats{Accepted: conns, Up: want, Down: want}, p.Stats())
}

func TestOneSideEnds(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())

	client, server := b.connect(t, p)
	require.NoError(t, client.CloseWrite())
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the client's FIN passes")
	send(t, server, "still")
	wants(t, client, "still")
	require.Equal(t, 1, p.Stats().Open)
	require.NoError(t, server.Close())
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the server's FIN passes")
	until(t, p, func(s Stats) bool { return s.Open == 0 })

	client, server = b.connect(t, p)
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	wantsReset(t, server, "")

	client, server = b.connect(t, p)
	send(t, server, "last")
	wants(t, client, "last")
	require.NoError(t, server.SetLinger(0))
	require.NoError(t, server.Close())
	wantsReset(t, client, "")
	until(t, p, func(s Stats) bool { return s.Open == 0 })
	require.Zero(t, p.Stats().Resets, "it was not the proxy that reset them")
}

// A client that has closed and is sent more resets the connection, as without a proxy.
func TestReceiverGone(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	require.NoError(t, client.Close())
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	for err = nil; err == nil; {
		_, err = server.Write(make([]byte, 1000))
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server is to hear of it")
	until(t, p, func(s Stats) bool { return s.Open == 0 })
}

func TestTargetDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	p := start(t, ln.Addr().String())
	wantsNobody(t, p)
	until(t, p, func(s Stats) bool { return s == Stats{Accepted: 1, Resets: 1} })

	_, err = New("nowhere")
	require.ErrorContains(t, err, "no host:port")
}
