// Package redlocktest gives tests a real [redlock.Locker] over nodes in memory,
// whose faults the test decides: no server, no port, and inside a
// testing/synctest bubble no waiting either.
//
//	locker, nodes := redlocktest.NewLocker(t, 3)
//	nodes.At(0).Kill()
//	lease, err := locker.Acquire(ctx, "job") // two of three still vote
//
// The nodes keep the semantics of redis-server 7.0; a differential test of this
// module holds the two equal.
package redlocktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/memnode"
)

// NewLocker makes n new nodes and a Locker over them, initialised as by
// [redlock.Locker.Init] and closed when the test ends. It fails the test when
// an option is bad.
func NewLocker(tb testing.TB, n int, opts ...redlock.Option) (*redlock.Locker, *Nodes) {
	tb.Helper()
	nodes := NewNodes(n)
	l := nodes.NewLocker(tb, opts...)
	if err := l.Init(context.Background()); err != nil {
		tb.Fatalf("redlocktest: init: %v", err)
	}
	return l, nodes
}

// Nodes are in-memory nodes. They outlive their Lockers.
type Nodes struct{ nodes []*Node }

// NewNodes makes n new nodes, without seals.
func NewNodes(n int) *Nodes { return NewNamedNodes("mem", n) }

// NewNamedNodes makes n new nodes whose names are prefix and a number from 0: the
// groups of a [redlock.Sharded] need names that differ, as servers have addresses
// that do.
func NewNamedNodes(prefix string, n int) *Nodes {
	ns := &Nodes{}
	for i := range n {
		ns.nodes = append(ns.nodes, &Node{mem: memnode.New(fmt.Sprint(prefix, i), nil)})
	}
	return ns
}

// Len is how many there are.
func (ns *Nodes) Len() int { return len(ns.nodes) }

// At is node i, from 0.
func (ns *Nodes) At(i int) *Node { return ns.nodes[i] }

// Nodes are the nodes as arguments of [redlock.New]. Each call gives new
// arguments for the same nodes, so that several Lockers can meet on them.
func (ns *Nodes) Nodes() []redlock.Node {
	var out []redlock.Node
	for _, n := range ns.nodes {
		out = append(out, redlock.NodeOver(n.mem.Dialer()))
	}
	return out
}

// NewLocker makes another Locker over the same nodes, as another process would.
// It is closed when the test ends.
func (ns *Nodes) NewLocker(tb testing.TB, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	l, err := redlock.New(ns.Nodes(), opts...)
	if err != nil {
		tb.Fatalf("redlocktest: %v", err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// Node is one node and its faults. All methods are safe for concurrent use.
type Node struct{ mem *memnode.Node }

// Kill makes the node refuse connections and cuts those that it has. Its memory
// is kept, as with an append-only file.
func (n *Node) Kill() { n.mem.Kill() }

// Start lets a killed node serve again, as a restarted process: its
// master_replid is new, so it abstains for the quarantine.
func (n *Node) Start() { n.mem.Start() }

// Forget restarts the node with empty memory.
func (n *Node) Forget() { n.mem.Forget() }

// Flush empties the memory under the live connections, as FLUSHALL does.
func (n *Node) Flush() { n.mem.Flush() }

// Hang stops the node as SIGSTOP does: it still takes connections and calls,
// and executes them when it resumes, also for clients that gave up.
func (n *Node) Hang() { n.mem.Hang() }

// Resume ends Hang.
func (n *Node) Resume() { n.mem.Resume() }

// Delay makes every reply late by d; 0 ends that.
func (n *Node) Delay(d time.Duration) { n.mem.Delay(d) }

// LoseReplies makes the node execute calls without ever answering them.
func (n *Node) LoseReplies(lose bool) { n.mem.LoseReplies(lose) }

// SkewClock moves the node's clock by offset and lets it run at rate from now
// on; 0 and 1 are true time. Keys expire by that clock.
func (n *Node) SkewClock(offset time.Duration, rate float64) { n.mem.SkewClock(offset, rate) }

// Demote makes the node a replica, which refuses writes.
func (n *Node) Demote() { n.mem.Demote() }

// Promote makes it a master again, with a new master_replid.
func (n *Node) Promote() { n.mem.Promote() }

// SetMaxMemory sets maxmemory and maxmemory-policy as INFO shows them.
func (n *Node) SetMaxMemory(bytes int64, policy string) { n.mem.SetMaxMemory(bytes, policy) }

// Put sets a string key; a ttl of 0 sets none.
func (n *Node) Put(key, value string, ttl time.Duration) { n.mem.Put(key, value, ttl) }

// PutList sets a key that is a list, not a lock.
func (n *Node) PutList(key string) { n.mem.PutList(key) }

// Delete removes a key, as an administrator would.
func (n *Node) Delete(key string) { n.mem.Delete(key) }

// Get reads a string key and the time it has yet.
func (n *Node) Get(key string) (value string, ttl time.Duration, ok bool) { return n.mem.Get(key) }

// Keys lists the keys that stand on the node, seals and quarantines included.
func (n *Node) Keys() []string { return n.mem.Keys() }
