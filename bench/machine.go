package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"
)

// nameMachine is the column of what no lock has a part in.
const nameMachine = nameFloor

// runS0 is what the machine gives, to read the rest by: a round trip without a
// client library, a hop from one goroutine to another and back, and the floor
// against itself, in turns as all are measured. The spread of that last ratio is
// the noise of every other one of this run.
func runS0(ctx context.Context, p *plan, n int) (*record, error) {
	r := newRecord("S0", n)
	twins := *p
	twins.makers = []maker{{name: nameFloor, open: openFloor}, {name: nameFloor + "-again", open: openFloor}}
	t, err := newTeam(ctx, &twins, r.Scenario, n)
	if err != nil {
		return nil, err
	}
	defer t.close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.servers.addrs[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	t.warm(ctx, p)
	for round := range p.rounds {
		trips, err := roundTrips(conn, p.pairs)
		if err != nil {
			return nil, err
		}
		r.add(mTrip, nameMachine, micros(trips, 0.5))
		r.add(mHop, nameMachine, micros(hops(p.pairs), 0.5))
		var got [2]sample
		for b := range blocks {
			for _, i := range t.order(round + b) {
				sequence(ctx, t.lockers[i], t.names[i].take(max(p.pairs/blocks, 1)), false, &got[i])
			}
		}
		r.add(mNoise, nameMachine, micros(got[0].took, 0.5)/micros(got[1].took, 0.5))
	}
	return r, nil
}

func roundTrips(conn net.Conn, k int) ([]time.Duration, error) {
	in, took := bufio.NewReader(conn), make([]time.Duration, k)
	for i := range took {
		start := time.Now()
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return nil, err
		}
		if _, err := in.ReadString('\n'); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return took, nil
}

// hops measures a hand-off to a goroutine that waits, and back.
func hops(k int) []time.Duration {
	there, back, took := make(chan bool), make(chan bool), make([]time.Duration, k)
	go func() {
		defer close(back)
		for range there {
			back <- true
		}
	}()
	for i := range took {
		start := time.Now()
		there <- true
		<-back
		took[i] = time.Since(start)
	}
	close(there)
	<-back
	return took
}
