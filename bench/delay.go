package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// delayer is a TCP proxy in front of one node whose answers come late, each by
// the same time and however many are on their way: a node on a far link, not
// one that is overloaded.
type delayer struct {
	late   time.Duration
	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newDelayer(ctx context.Context, target string, late time.Duration) (*delayer, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayer{late: late, target: target, ln: ln, conns: make(map[net.Conn]struct{})}
	d.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			d.serve(client, server)
		}
	})
	return d, nil
}

func (d *delayer) addr() string { return d.ln.Addr().String() }

// chunk is part of an answer, and when it may go on.
type chunk struct {
	data []byte
	due  time.Time
}

func (d *delayer) serve(client, server net.Conn) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		_, _ = client.Close(), server.Close()
		return
	}
	d.conns[client], d.conns[server] = struct{}{}, struct{}{}
	d.mu.Unlock()
	queue := make(chan chunk, 1024)
	d.wg.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	d.wg.Go(func() {
		defer close(queue)
		buf := make([]byte, 16<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			queue <- chunk{append([]byte(nil), buf[:n]...), time.Now().Add(d.late)}
		}
	})
	d.wg.Go(func() {
		for c := range queue {
			time.Sleep(time.Until(c.due))
			_, _ = client.Write(c.data) // the reader above ends this when the connection is gone
		}
		_ = client.Close()
		d.mu.Lock()
		delete(d.conns, client)
		delete(d.conns, server)
		d.mu.Unlock()
	})
}

func (d *delayer) close() {
	_ = d.ln.Close()
	d.mu.Lock()
	d.closed = true
	for c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
}
