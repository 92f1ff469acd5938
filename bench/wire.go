package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// wire counts the commands that clients send. A server's own counters count
// what scripts call, too; MONITOR tells them apart. It makes a server slower, so
// nothing is timed meanwhile. What this library asks at the end of each pipeline,
// to know that a node may vote, is counted apart: it is two commands for however
// many the pipeline has.
type wire struct {
	conns []net.Conn
	sent  atomic.Int64 // without the checks
	check atomic.Int64
	wg    sync.WaitGroup
}

func listen(ctx context.Context, addrs []string) (*wire, error) {
	w := new(wire)
	for _, addr := range addrs {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			w.stop()
			return nil, err
		}
		w.conns = append(w.conns, c)
		in := bufio.NewReader(c)
		if _, err = io.WriteString(c, "MONITOR\r\n"); err == nil {
			var line string
			if line, err = in.ReadString('\n'); err == nil && line != "+OK\r\n" {
				err = errors.New(line)
			}
		}
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("MONITOR on %s: %w", addr, err)
		}
		w.wg.Go(func() { w.read(in) })
	}
	return w, nil
}

func (w *wire) read(in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch {
		case strings.Contains(line, "[0 lua]"):
		case strings.Contains(line, `] "mget" "redlock:seal:`), strings.Contains(line, `] "info" "replication"`):
			w.check.Add(1)
		default:
			w.sent.Add(1)
		}
	}
}

// stop ends it.
func (w *wire) stop() {
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.wg.Wait()
}

// count notes the commands of so many acquisitions.
func (w *wire) count(r *record, impl string, acquired int) {
	w.stop()
	each := float64(max(acquired, 1))
	r.add(mCommands, impl, float64(w.sent.Load())/each)
	if impl == nameRedlock {
		r.add(mChecks, impl, float64(w.check.Load())/each)
	}
}
