package redlock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/seam"
)

// fleet is a Cluster at work for one Locker: who owns which bucket, and the
// buckets' voters.
type fleet struct {
	c       *cluster
	mutant  mutant
	buckets [clusterBuckets]*voter // nil where the vote is not in the list
	wg      sync.WaitGroup         // of questions that are out

	look chan struct{} // one look-up at a time
	view *clusterView
	at   time.Time // when it was asked for…
	err  error     // …in vain

	mu    sync.Mutex
	conns map[*bucketConn]struct{}
	left  map[string]time.Time     // when the connections to an address were dropped
	last  [clusterBuckets]string   // where a bucket was connected to last
	turns map[string]chan struct{} // to connect to an address
	done  chan struct{}            // closed with the Locker
}

// viewFresh is how long a look-up serves those who dial next: when a master is
// gone, all of its buckets do.
const viewFresh = 100 * time.Millisecond

// owner is the address of the bucket's master.
func (f *fleet) owner(k int, timeout time.Duration) (string, error) {
	select {
	case f.look <- struct{}{}:
	case <-f.done:
		return "", ErrClosed
	}
	defer func() { <-f.look }()
	if f.at.IsZero() || time.Since(f.at) > viewFresh {
		at := time.Now()
		view, err := f.lookUp(at.Add(timeout))
		if f.at, f.err = time.Now(), err; err == nil {
			f.view, f.at = view, at
		}
	}
	if f.err != nil {
		return "", f.err
	}
	if all, _ := f.view.masters(); f.c.votes > all {
		return "", &ConfigError{
			"votes", fmt.Sprint(f.c.votes),
			fmt.Sprintf("is more than the Cluster has masters (%d); votes must lie on different ones, so give at most %d, and an odd number", all, all),
		}
	}
	o := f.view.owners[k]
	if o.id == "" {
		return "", fmt.Errorf("no master serves slot %d; see redis-cli --cluster check", bucketSlot(k))
	}
	return o.addr, nil
}

// viewAnswer is what one node said.
type viewAnswer struct {
	addr, text string
	err        error
}

// lookUp asks the nodes given, the masters known, and the masters that they
// name, all at once, until a majority of the masters has answered: one alone may
// be an old master that has not heard yet that it was replaced (hazard H12). Only
// when those do not make one are the other nodes asked.
func (f *fleet) lookUp(deadline time.Time) (*clusterView, error) {
	view := &clusterView{hostnames: f.c.wantsNames(), first: f.mutant.has(mutantFirstView)}
	answers := make(chan viewAnswer, 4*maxClusterAddrs)
	asked := make(map[string]bool)
	ask := func(addrs []string) {
		for _, addr := range addrs {
			if asked[addr] || len(asked) >= 2*maxClusterAddrs {
				continue
			}
			asked[addr] = true
			f.wg.Go(func() {
				a := viewAnswer{addr: addr}
				a.text, a.err = f.c.wire.nodes(addr, time.Until(deadline))
				answers <- a
			})
		}
	}
	ask(f.c.addrs)
	if f.view != nil {
		ask(f.view.masterAddrs())
	}
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	var all *multierror.Error
	for heard := 0; heard < len(asked); heard++ {
		select {
		case a := <-answers:
			if a.err == nil {
				a.err = view.learn(a.addr, a.text)
			}
			if a.err != nil {
				all = appendNode(all, a.addr, "cluster nodes", explain(clusterRefusal(a.err)))
			}
			if view.settled() {
				return view, nil
			}
			ask(view.masterAddrs())
			if heard+1 == len(asked) {
				ask(view.addrs)
				if f.view != nil {
					ask(f.view.addrs)
				}
			}
		case <-limit.C:
			heard = len(asked)
		}
	}
	return nil, view.unsettled(all)
}

// unsettled says why a look-up came to nothing.
func (v *clusterView) unsettled(nodes *multierror.Error) error {
	masters, said := v.masters()
	text := "no node of the Cluster answered"
	if len(v.said) > 0 {
		text = fmt.Sprintf("%d of the Cluster's %d masters answered, and whom they name as a slot's owner needs a majority", said, masters)
	}
	if nodes == nil {
		return errors.New(text)
	}
	for _, err := range nodes.Errors {
		if _, ok := errors.AsType[*ConfigError](err); ok && len(v.said) == 0 {
			return fmt.Errorf("%s: %w", text, nodes) // a wrong password is no outage
		}
	}
	return fmt.Errorf("%s: %v", text, nodes) //nolint:errorlint // one node's trouble is not the vote's
}

// gone is told of a connection that broke, or led to a master that is no longer
// the owner. Those of the other buckets to that address are dropped with it, so
// that where a master was replaced the quarantines of all its buckets start
// together and early. Once a second: a slot that is moved takes no other along.
func (f *fleet) gone(addr string, c *bucketConn) {
	now := time.Now()
	f.mu.Lock()
	if at, ok := f.left[addr]; ok && now.Sub(at) < time.Second {
		f.mu.Unlock()
		return
	}
	if f.left == nil || len(f.left) > maxClusterAddrs {
		f.left = make(map[string]time.Time)
	}
	f.left[addr] = now
	var drop []*voter
	for other := range f.conns {
		if other != c && other.addr == addr {
			drop = append(drop, f.buckets[other.k])
		}
	}
	f.mu.Unlock()
	for _, v := range drop {
		v.drop()
	}
}

// drop makes a bucket's lanes connect anew, wherever its master is now.
func (v *voter) drop() {
	v.mu.Lock()
	for _, r := range v.lanes {
		if r.l.phase == phaseOpen {
			r.l.hangUp = true
		}
	}
	v.mu.Unlock()
	v.poke(false)
}

// start connects a bucket that nobody asked for yet.
func (v *voter) start() {
	v.mu.Lock()
	r := v.lanes[0]
	start := !v.closed && !r.started
	if start {
		r.l.probe = true
		r.occupy()
	}
	v.mu.Unlock()
	if start {
		r.hand()
	}
}

// atOnce is how many buckets connect to one server at the same time. All of them
// do when a master was replaced, and they would be each other's time-out.
const atOnce = 4

// turn waits for a turn to connect to a server. The node timeout begins with it.
func (f *fleet) turn(addr string) (end func(), err error) {
	f.mu.Lock()
	t := f.turns[addr]
	if t == nil {
		if len(f.turns) > 4*maxClusterAddrs {
			clear(f.turns)
		}
		t = make(chan struct{}, atOnce)
		f.turns[addr] = t
	}
	f.mu.Unlock()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-f.done:
		return nil, ErrClosed
	}
}

// bucketDialer connects the lanes of one bucket.
type bucketDialer struct {
	f    *fleet
	k    int
	name string
}

func (d *bucketDialer) Node() string       { return d.name }
func (d *bucketDialer) DB() int            { return 0 }
func (d *bucketDialer) Lag() time.Duration { return deposedFor }

// Dial looks up the bucket's master and connects to it.
func (d *bucketDialer) Dial(timeout time.Duration) (seam.Conn, error) {
	addr, err := d.f.owner(d.k, timeout)
	if err != nil {
		return nil, err
	}
	end, err := d.f.turn(addr)
	if err != nil {
		return nil, err
	}
	conn, err := d.f.c.wire.dial(addr, timeout)
	end()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, clusterRefusal(err))
	}
	c := &bucketConn{conn: conn, f: d.f, k: d.k, addr: addr, tag: bucketTags()[d.k]}
	d.f.mu.Lock()
	d.f.conns[c] = struct{}{}
	before := d.f.last[d.k]
	d.f.last[d.k] = addr
	d.f.mu.Unlock()
	if before != "" && before != addr {
		d.f.gone(before, c) // it hangs, perhaps, and cannot say so itself
	}
	return c, nil
}
