package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// fakeCluster is a Cluster of in-memory nodes, in which every node has a view of
// its own on who owns what, as real ones do for a while.
type fakeCluster struct {
	mems []*memnode.Node

	mu    sync.Mutex
	views [][clusterBuckets]fakeOwner // per node
	slow  []time.Duration             // of a node's answer to CLUSTER NODES
	asks  []int                       // how often each was asked
	say   map[int]string              // what a node answers about a bucket instead of serving it
}

type fakeOwner struct {
	node  int
	epoch int64
}

// newFakeCluster makes n nodes, with the slots spread evenly over the first of them.
func newFakeCluster(n, masters int) *fakeCluster {
	f := &fakeCluster{
		mems: memNodes(n), views: make([][clusterBuckets]fakeOwner, n),
		slow: make([]time.Duration, n), asks: make([]int, n), say: make(map[int]string),
	}
	for i := range f.views {
		for k := range clusterBuckets {
			f.views[i][k] = fakeOwner{k * masters / clusterBuckets, int64(k*masters/clusterBuckets) + 1}
		}
	}
	return f
}

func fakeAddr(i int) string { return fmt.Sprintf("10.0.0.%d:6379", i+1) }

func fakeIndex(addr string) int {
	var i int
	_, _ = fmt.Sscanf(addr, "10.0.0.%d:6379", &i)
	return i - 1
}

// give makes a node the owner of buckets, in the eyes of the given nodes, or of all.
func (f *fakeCluster) give(buckets []int, to int, epoch int64, eyes ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.views {
		if len(eyes) > 0 && !containsInt(eyes, i) {
			continue
		}
		for _, k := range buckets {
			f.views[i][k] = fakeOwner{to, epoch}
		}
	}
}

func containsInt(all []int, i int) bool {
	for _, v := range all {
		if v == i {
			return true
		}
	}
	return false
}

// those are the buckets for which a node owns them, in its own eyes.
func (f *fakeCluster) those(node int) (ks []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, o := range f.views[node] {
		if o.node == node {
			ks = append(ks, k)
		}
	}
	return ks
}

// asked is how often a node was asked for its view.
func (f *fakeCluster) asked(i int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks[i]
}

// refuse makes a bucket answer with the given words; "" ends it.
func (f *fakeCluster) refuse(k int, words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say[k] = words
}

// nodes is CLUSTER NODES of one node. A node that owns nothing is a master too.
func (f *fakeCluster) nodes(addr string, timeout time.Duration) (string, error) {
	i := fakeIndex(addr)
	f.mu.Lock()
	f.asks[i]++
	slow := f.slow[i]
	f.mu.Unlock()
	conn, err := f.mems[i].Dialer().Dial(timeout) // a node that is down does not answer
	if err != nil {
		return "", err
	}
	conn.Close()
	if slow > 0 {
		t := time.NewTimer(min(slow, timeout))
		defer t.Stop()
		<-t.C
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for j := range f.mems {
		flags, slots, epoch := "master", "", int64(0)
		if j == i {
			flags = "myself,master"
		}
		for k, o := range f.views[i] {
			if o.node == j {
				slots += fmt.Sprintf(" %d-%d", 256*k, 256*k+255)
				epoch = max(epoch, o.epoch)
			}
		}
		fmt.Fprintf(&b, "id%d %s@16379 %s - 0 0 %d connected%s\n", j, fakeAddr(j), flags, epoch, slots)
	}
	return b.String(), nil
}

func (f *fakeCluster) dial(addr string, timeout time.Duration) (seam.Conn, error) {
	i := fakeIndex(addr)
	conn, err := f.mems[i].Dialer().Dial(timeout)
	if err != nil {
		return nil, err
	}
	return &fakeConn{conn, f, i}, nil
}

// fakeConn is a connection to a node that answers for its own buckets only.
type fakeConn struct {
	seam.Conn
	f    *fakeCluster
	node int
}

func (c *fakeConn) Do(calls []seam.Call, replies []seam.Reply) error {
	var mine []seam.Call
	var where []int
	for i := range calls {
		key := calls[i].Key + calls[i].SealKey
		if key != "" {
			if err := c.f.redirect(c.node, key); err != nil {
				replies[i] = seam.Reply{Code: seam.Error, Err: err}
				continue
			}
		}
		mine, where = append(mine, calls[i]), append(where, i)
	}
	got := make([]seam.Reply, len(mine))
	err := c.Conn.Do(mine, got)
	for j, i := range where {
		replies[i] = got[j]
		if replies[i].Facts != nil {
			replies[i].Facts.Mode = "cluster"
		}
	}
	return err
}

// redirect is what a node says of a key that it does not serve.
func (f *fakeCluster) redirect(node int, key string) error {
	var k int
	_, _ = fmt.Sscanf(key, "{b%d-", &k)
	f.mu.Lock()
	defer f.mu.Unlock()
	if words := f.say[k]; words != "" {
		return errors.New(words)
	}
	if o := f.views[node][k]; o.node != node {
		return fmt.Errorf("MOVED %d %s", 256*k, fakeAddr(o.node))
	}
	return nil
}

// votes are Nodes over the fake, known by the given of its nodes.
func (f *fakeCluster) votes(votes int, seeds ...int) []Node {
	c := &cluster{votes: votes, wire: f}
	if len(seeds) == 0 {
		seeds = []int{0}
	}
	for _, i := range seeds {
		c.addrs = append(c.addrs, fakeAddr(i))
	}
	return c.nodes()
}

// overFake makes a Locker over Nodes, which ends with the test.
func overFake(t *testing.T, nodes []Node, opts ...Option) *Locker {
	t.Helper()
	l, err := New(nodes, append([]Option{WithMaxTTL(time.Second), WithTTL(time.Second)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
