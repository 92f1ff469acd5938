package faultproxy

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// start starts a proxy that ends with the test.
func start(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// backend is a server whose connections the test itself holds.
type backend struct {
	net.Listener
	conns chan *net.TCPConn
}

// serve listens and hands over what it accepts.
func serve(t *testing.T) *backend {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &backend{Listener: ln, conns: make(chan *net.TCPConn, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.conns <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		close(b.conns)
		for c := range b.conns {
			_ = c.Close()
		}
	})
	return b
}

// dial connects to the proxy.
func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// connect makes a connection through the proxy and returns both its ends.
func (b *backend) connect(t *testing.T, p *Proxy) (client, server *net.TCPConn) {
	t.Helper()
	client = dial(t, p)
	select {
	case server = <-b.conns:
	case <-time.After(patience):
		t.Fatal("the proxy does not connect to its target")
	}
	t.Cleanup(func() { _ = server.Close() })
	require.NoError(t, server.SetDeadline(time.Now().Add(patience)))
	until(t, p, func(Stats) bool { return p.linked() }) // the kernel accepts before the proxy knows
	return client, server
}

// linked reports whether every connection has got through to the server.
func (p *Proxy) linked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if c.up == nil {
			return false
		}
	}
	return true
}

// echo starts a server that sends back what it gets.
func echo(t *testing.T) *backend {
	t.Helper()
	b := serve(t)
	var each sync.WaitGroup
	stop := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			select {
			case c := <-b.conns:
				each.Go(func() {
					_, _ = io.Copy(c, c)
					_ = c.Close()
				})
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { // before the listener ends, after the test's connections have
		close(stop)
		<-served
		each.Wait()
	})
	return b
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

// wants reads exactly that text.
func wants(t *testing.T, c net.Conn, text string) {
	t.Helper()
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	require.NoError(t, err, "after %q", buf[:n])
	require.Equal(t, text, string(buf))
}

// wantsReset reads exactly that text and then a RST.
func wantsReset(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got, err := io.ReadAll(c)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Equal(t, text, string(got))
}

// both shows that a connection works in both directions.
func both(t *testing.T, client, server net.Conn) {
	t.Helper()
	send(t, client, "ping")
	wants(t, server, "ping")
	send(t, server, "pong")
	wants(t, client, "pong")
}

// until waits for the counters to say so.
func until(t *testing.T, p *Proxy, ok func(Stats) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !ok(p.Stats()); <-tick.C {
		require.True(t, time.Now().Before(limit), "it does not happen: %+v", p.Stats())
	}
}

// wantsNobody connects where the server behind the proxy is gone. The RST may
// come before connect has returned.
func wantsNobody(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.ReadAll(c)
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
