package redlock

import (
	"container/heap"
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// This file drives the client's own state machines, lanes, rounds, renewals and
// releases, over in-memory nodes from one goroutine: events in a queue, time in
// a variable, one seed for everything. The same seed is the same run.

const (
	simTTL     = time.Second
	simTimeout = 100 * time.Millisecond
)

// sim is one run.
type sim struct {
	rnd     *rand.Rand
	now     time.Duration
	queue   simQueue
	order   int
	log     hash.Hash
	nodes   []*memnode.Node
	clients []*simClient
	grants  int
	broken  string // the first violation
}

type simEvent struct {
	at    time.Duration
	order int
	do    func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// after puts an event into the queue.
func (s *sim) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.queue, simEvent{s.now + d, s.order, do})
}

func (s *sim) note(format string, args ...any) {
	fmt.Fprintf(s.log, "%d ", s.now)
	fmt.Fprintf(s.log, format, args...)
	fmt.Fprintln(s.log)
}

// clock is what a client and a node see: true time from the same origin.
func (s *sim) wall() time.Time { return time.Unix(1_700_000_000, 0).Add(s.now) }

func (s *sim) moment() moment {
	return moment{instant{s.now, s.now, time.Duration(s.wall().UnixNano())}, s.wall()}
}

func newSim(seed uint64, n, clients int, m mutant) *sim {
	s := &sim{rnd: rand.New(rand.NewPCG(seed, 1)), log: sha256.New()}
	for i := range n {
		s.nodes = append(s.nodes, memnode.New(fmt.Sprint("node", i), s.wall))
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("node", i))
	}
	for i := range clients {
		c := &simClient{s: s, id: i, ward: newWard(names, modeStrict, defaultPrefix, simTTL)}
		c.ward.mutant = m
		c.ward.wanted.Store(true)
		for k := range n {
			c.nodes = append(c.nodes, newNode(k, names[k], 0, c.ward, simTimeout))
		}
		c.session, c.flying, c.wake = make([]*memnode.Session, n), make([]bool, n), make([]time.Duration, n)
		s.clients = append(s.clients, c)
	}
	for i, node := range s.nodes { // declared empty, as by Init
		var r [1]seam.Reply
		seal := s.clients[0].ward.spec(0).text(0, node.Replid())
		_ = node.Exec(node.NewSession(), []seam.Call{{Op: seam.Seal, SealKey: "redlock:seal:lock:", QuarantineKey: "redlock:quarantine:lock:", Value: seal}}, r[:])
		if r[0].Code != seam.OK {
			panic(fmt.Sprintf("node %d was not sealed", i))
		}
	}
	return s
}

// delay is how long a message takes: mostly little, sometimes far too much.
func (s *sim) delay() time.Duration {
	if s.rnd.IntN(20) == 0 {
		return time.Duration(s.rnd.Int64N(int64(2 * simTTL)))
	}
	return time.Duration(s.rnd.ExpFloat64() * float64(2*time.Millisecond))
}

// run plays until the given time.
func (s *sim) run(until time.Duration) {
	for _, c := range s.clients {
		s.after(time.Duration(s.rnd.IntN(10))*time.Millisecond, c.acquire)
	}
	s.after(s.delay(), s.fault)
	for len(s.queue) > 0 && s.broken == "" {
		e := heap.Pop(&s.queue).(simEvent)
		if e.at > until {
			return
		}
		s.now = e.at
		e.do()
		for _, c := range s.clients {
			c.pump()
		}
	}
}

// fault lets one node at a time forget, restart or hang, further apart than the
// quarantine, so that a minority is in trouble.
func (s *sim) fault() {
	n := s.rnd.IntN(len(s.nodes))
	kind := s.rnd.IntN(4)
	s.note("fault %d at node %d", kind, n)
	switch node := s.nodes[n]; kind {
	case 0:
		node.Forget()
	case 1:
		node.Flush()
	case 2:
		node.Kill()
		s.after(time.Duration(s.rnd.Int64N(int64(simTTL))), node.Start)
	case 3:
		node.Restore(node.Snapshot()) // a promotion of a copy that does not lag
	}
	s.after(quarantineFor(simTTL)+simTTL+s.delay(), s.fault)
}

// digest is the hash of everything that happened.
func (s *sim) digest() string { return fmt.Sprintf("%x", s.log.Sum(nil)) }

func TestSimulationReplaysExactly(t *testing.T) {
	play := func(seed uint64) *sim {
		s := newSim(seed, 3, 2, 0)
		s.run(time.Minute)
		return s
	}
	a, b, other := play(7), play(7), play(8)
	require.Equal(t, a.digest(), b.digest(), "the same seed is not the same run")
	require.NotEqual(t, a.digest(), other.digest())
	require.Empty(t, a.broken)
	require.Greater(t, a.grants, 10, "nothing happened")
}

func TestSimulationKeepsExclusion(t *testing.T) {
	grants := 0
	for seed := range uint64(60) {
		s := newSim(seed, 3, 2+int(seed%2), 0)
		s.run(40 * time.Second)
		require.Empty(t, s.broken, "seed %d", seed)
		grants += s.grants
	}
	require.Greater(t, grants, 600)
	t.Logf("%d grants in %d virtual seconds", grants, 60*40)
}

func TestSimulationCatchesTheSealMutant(t *testing.T) {
	for seed := range uint64(300) {
		s := newSim(seed, 3, 3, mutantNoSeal)
		s.run(40 * time.Second)
		if s.broken != "" {
			t.Logf("seed %d: %s", seed, s.broken)
			return
		}
	}
	t.Fatal("300 seeds without the seal kept exclusion: the simulation sees nothing")
}
