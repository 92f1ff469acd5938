package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefuseNew(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	for range 20 {
		p.Set(Fault{RefuseNew: true})
		_, err := net.Dial("tcp", p.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		both(t, client, server)
		p.Heal()
		client2, server2 := b.connect(t, p)
		both(t, client2, server2)
	}
	p.Set(Fault{RefuseNew: true})
	p.Set(Fault{RefuseNew: true, HoldUp: true})
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// While the port refuses, nobody else gets it.
func TestRefuseNewKeepsThePort(t *testing.T) {
	p := start(t, serve(t).Addr().String())
	p.Set(Fault{RefuseNew: true})
	addr := p.Addr()
	for range 2000 { // the system would give it out again sooner or later
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NotEqual(t, addr, ln.Addr().String())
		require.NoError(t, ln.Close())
	}
	p.Heal()
	dial(t, p)
}

func TestBlackholeUp(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	both(t, client, server)
	p.Set(Fault{BlackholeUp: true})
	send(t, client, "lost")
	until(t, p, func(s Stats) bool { return s.Up.Dropped == 4 })
	send(t, server, "one way is open")
	wants(t, client, "one way is open")
	require.NoError(t, client.Close())
	unhurt, server2 := b.connect(t, p)
	p.Heal()
	both(t, unhurt, server2)
	wantsReset(t, server, "") // never heard of the FIN, and nothing may follow the gap
	until(t, p, func(s Stats) bool { return s.Up.Passed == 4+4 })
}

func TestBlackholeDown(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	p.Set(Fault{BlackholeDown: true})
	send(t, server, "lost")
	until(t, p, func(s Stats) bool { return s.Down.Dropped == 4 })
	send(t, client, "one way is open")
	wants(t, server, "one way is open")
	p.Set(Fault{BlackholeDown: true, DelayUp: time.Millisecond}) // it stays open as long as the fault does
	send(t, client, "still")
	wants(t, server, "still")
	require.Zero(t, p.Stats().Resets)
	p.Heal()
	wantsReset(t, client, "")
	wantsReset(t, server, "")
	require.Equal(t, 1, p.Stats().Resets)
}

func TestHold(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	p.Set(Fault{HoldUp: true, HoldDown: true})
	send(t, client, "up")
	send(t, server, "down")
	until(t, p, func(s Stats) bool { return s.Up.Waiting == 2 && s.Down.Waiting == 4 })
	p.Set(Fault{HoldUp: true})
	wants(t, client, "down")
	send(t, server, "more")
	wants(t, client, "more")
	send(t, client, " to date")
	require.NoError(t, client.CloseWrite())
	until(t, p, func(s Stats) bool { return s.Up.Waiting == 10 })
	require.Zero(t, p.Stats().Up.Passed)
	p.Heal()
	got, err := io.ReadAll(server)
	require.NoError(t, err)
	require.Equal(t, "up to date", string(got), "and the FIN behind it")
}

// What is held falls to the next fault.
func TestHeldThenBlackholed(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, _ := b.connect(t, p)
	p.Set(Fault{HoldUp: true})
	send(t, client, "gone")
	until(t, p, func(s Stats) bool { return s.Up.Waiting == 4 })
	p.Set(Fault{HoldUp: true, BlackholeUp: true})
	until(t, p, func(s Stats) bool { return s.Up == Flow{Dropped: 4} })
}

// fill writes until nobody takes any more, and returns how much was taken.
func fill(t *testing.T, c *net.TCPConn, full func() bool) []byte {
	t.Helper()
	text, taken := noise(7, 32<<20), 0
	for {
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		n, err := c.Write(text[taken:])
		if taken += n; err == nil {
			t.Fatalf("%d bytes were taken: there is no bound", taken)
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		if n == 0 && full() {
			return text[:taken]
		}
	}
}

func TestHoldIsBounded(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	p.Set(Fault{HoldUp: true})
	sent := fill(t, client, func() bool { return p.Stats().Up.Waiting == queueLimit })
	require.Equal(t, Flow{Waiting: queueLimit}, p.Stats().Up)
	require.NoError(t, client.CloseWrite())
	p.Heal()
	got, err := io.ReadAll(server)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got), "sent %d, got %d", len(sent), len(got))
}

// A receiver that does not read blocks neither Set nor what it decides.
func TestSetWhileTheReceiverIsSlow(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	sent := fill(t, server, func() bool { return p.Stats().Down.Waiting == queueLimit })
	p.Set(Fault{HoldDown: true})
	passed := p.Stats().Down.Passed
	got := make([]byte, passed)
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "after Set has returned nothing passes")
	require.NoError(t, client.SetReadDeadline(time.Now().Add(patience)))
	p.Heal()
	require.NoError(t, server.CloseWrite())
	rest, err := io.ReadAll(client)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, slices.Concat(got, rest)))
}

func TestDelay(t *testing.T) {
	const late = 60 * time.Millisecond
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	for name, c := range map[string]struct {
		f        Fault
		from, to *net.TCPConn
	}{"up": {Fault{DelayUp: late}, client, server}, "down": {Fault{DelayDown: late}, server, client}} {
		p.Set(c.f)
		began := time.Now()
		var text strings.Builder
		for i := range 50 {
			piece := strings.Repeat(string(rune('a'+i%26)), i+1)
			text.WriteString(piece)
			send(t, c.from, piece)
		}
		wants(t, c.to, text.String())
		require.GreaterOrEqual(t, time.Since(began), late, name)
		send(t, c.to, "at once")
		wants(t, c.from, "at once")
	}
	p.Set(Fault{DelayDown: time.Hour})
	send(t, server, "early")
	until(t, p, func(s Stats) bool { return s.Down.Waiting == 5 })
	p.Heal()
	wants(t, client, "early")
}

func TestCutReplyAfter(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	other, server2 := b.connect(t, p)
	p.Set(Fault{CutReplyAfter: 5})
	send(t, server, "+OK")
	wants(t, client, "+OK")
	both(t, other, server2) // the shot is the first connection's
	require.Equal(t, 5, p.Fault().CutReplyAfter)
	send(t, server, "\r\n$1\r\nx\r\n")
	wantsReset(t, client, "\r\n")
	wantsReset(t, server, "")
	require.Zero(t, p.Fault().CutReplyAfter, "it hits once")
	require.Equal(t, 1, p.Stats().Resets)
	both(t, other, server2)

	p.Set(Fault{CutReplyAfter: 3})
	client, server = b.connect(t, p)
	send(t, server, "ab")
	wants(t, client, "ab")
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
	until(t, p, func(s Stats) bool { return s.Open == 1 })
	send(t, server2, "abcdef")
	wantsReset(t, other, "abc") // who ended before it was hit leaves the shot to the next
}

func TestDropReplies(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	other, server2 := b.connect(t, p)
	p.Set(Fault{DropReplies: 1})
	send(t, client, "SET")
	wants(t, server, "SET") // what was asked is done
	send(t, server, "+OK")
	until(t, p, func(s Stats) bool { return s.Down.Dropped == 3 })
	require.Zero(t, p.Fault().DropReplies)
	both(t, other, server2)
	send(t, server, "+LATE") // must not be taken for the answer to another question
	until(t, p, func(s Stats) bool { return s.Down.Dropped == 8 })
	send(t, client, "open")
	wants(t, server, "open")
	p.Heal()
	wantsReset(t, client, "")
}

func TestDropRepliesThenReset(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	other, server2 := b.connect(t, p)
	p.Set(Fault{DropReplies: 3, DropThenReset: true})
	for i, s := range []*net.TCPConn{server, server2} {
		send(t, s, "+OK")
		until(t, p, func(s Stats) bool { return s.Down.Dropped == int64(3*i+3) })
	}
	require.Equal(t, 1, p.Fault().DropReplies)
	require.Zero(t, p.Stats().Resets)
	unhurt, server3 := b.connect(t, p)
	send(t, server, "+OK")
	wantsReset(t, client, "")
	wantsReset(t, other, "")
	both(t, unhurt, server3)
	require.Equal(t, 2, p.Stats().Resets)
}

func TestReset(t *testing.T) {
	b := serve(t)
	p := start(t, b.Addr().String())
	client, server := b.connect(t, p)
	client2, server2 := b.connect(t, p)
	both(t, client, server)
	both(t, client2, server2)
	p.Reset()
	for _, c := range []net.Conn{client, server, client2, server2} {
		wantsReset(t, c, "")
	}
	require.Equal(t, 2, p.Stats().Resets)
	require.Zero(t, p.Stats().Open)
	client, server = b.connect(t, p)
	both(t, client, server)
}

func TestCloseWhileFaultsAreOn(t *testing.T) {
	for name, f := range map[string]Fault{
		"none":      {},
		"refuse":    {RefuseNew: true},
		"blackhole": {BlackholeUp: true, BlackholeDown: true},
		"hold":      {HoldUp: true, HoldDown: true},
		"delay":     {DelayUp: time.Hour, DelayDown: time.Hour},
		"cut":       {CutReplyAfter: 1 << 20},
		"drop":      {DropReplies: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t)
			p := start(t, b.Addr().String())
			client, server := b.connect(t, p)
			blocked, server2 := b.connect(t, p)
			p.Set(f)
			send(t, client, "up")
			send(t, server, "down")
			until(t, p, func(s Stats) bool {
				return s.Up.Passed+s.Up.Dropped+s.Up.Waiting == 2 && s.Down.Passed+s.Down.Dropped+s.Down.Waiting == 4
			})
			require.NoError(t, server2.SetWriteDeadline(time.Now().Add(30*time.Millisecond)))
			_, err := server2.Write(make([]byte, 16<<20)) // to a receiver that does not read
			require.True(t, err == nil || errors.Is(err, os.ErrDeadlineExceeded), "%v", err)

			p.Close()
			p.Close()
			for _, c := range []net.Conn{client, server, blocked, server2} {
				_, err := io.Copy(io.Discard, c)
				require.ErrorIs(t, err, syscall.ECONNRESET)
			}
			_, err = net.Dial("tcp", p.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			s := p.Stats()
			require.Zero(t, s.Open)
			require.Zero(t, s.Resets, "the end is no fault")
			require.Zero(t, s.Up.Waiting+s.Down.Waiting)
			p.Set(f)
			p.Heal()
			p.Reset()
			_, err = net.Dial("tcp", p.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED, "Set does not open what is closed")
		})
	}
}
