package faultproxy

import (
	"context"
	"net"
	"time"
)

// retry is how often what the system denied is tried again.
const retry = 10 * time.Millisecond

// door is the time from when new connections are accepted to when they are not.
type door struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func listen(addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
}

// open accepts connections until the door is shut. A nil listener is one that
// could not be had yet.
func (p *Proxy) open(ln net.Listener) *door {
	ctx, cancel := context.WithCancel(context.Background())
	d := &door{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		p.serve(ctx, ln)
	}()
	return d
}

// shut returns when the port answers with a refusal: a listener that is being
// accepted from is only closed when the accepting ends.
func (d *door) shut() {
	d.cancel()
	<-d.done
}

func (p *Proxy) serve(ctx context.Context, ln net.Listener) {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	pause := func() bool {
		select {
		case <-tick.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for ln == nil {
		if !pause() {
			return
		}
		ln, _ = listen(p.addr)
	}
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_ = ln.Close()
		close(closed)
	})
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			p.add(nc.(*net.TCPConn))
		case !pause(): // with no descriptor left it would spin
			<-closed
			return
		}
	}
}
