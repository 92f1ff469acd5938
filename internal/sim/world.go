// Package sim is a deterministic simulation: nodes in memory, messages and
// faults in virtual time, everything from one goroutine and one seed. The
// clients are the lock's own machines; the root package's tests bring them,
// since they are not exported. The same seed is the same run, to the byte.
package sim

import (
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// Client is one simulated process.
type Client interface {
	// Pump does what the client's machines want now. It is called after every
	// event of the client's.
	Pump()
	// Phase is what the client is doing: it tells which fault met which phase.
	Phase() string
	// Cancel ends an attempt that is under way, as a context that ends.
	Cancel()
}

// Settings are what a run is made of.
type Settings struct {
	Nodes int
	TTL   time.Duration // of every lease, and the max TTL of the seal
	Q     time.Duration // the quarantine
	Calm  bool          // no faults, and no message takes long
	// NoKill: the nodes let nobody kill a connection, as managed services do.
	NoKill bool
	// Clocks bounds how far a node's clock is from true time at the beginning; 0
	// for a second. With a bound no clock is ever set.
	Clocks time.Duration
}

// World is one run. It is not safe for concurrent use.
type World struct {
	Rand  *rand.Rand
	Nodes []*memnode.Node
	// Broken is the first violation, "" while there is none.
	Broken string
	// Met counts how often a fault met a phase, as "hang/held".
	Met map[string]int
	// Trace, when set, gets every line of the log.
	Trace func(line string)

	set     Settings
	clients []Client
	paused  []time.Duration // until when a client's process is stopped
	hung    []time.Duration // until when a node's process is stopped
	revived []time.Duration // when a node got the data of a copy that lagged
	now     time.Duration
	queue   queue
	order   int
	log     hash.Hash
	line    []byte
	calm    bool
	touched []int // the clients that the present event was one of
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push and Pop are for container/heap.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop is for container/heap.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// New makes the world of a seed. Nodes' clocks differ, and run at rates within
// what the lock's drift allows.
func New(seed uint64, set Settings) *World {
	w := &World{
		Rand: rand.New(rand.NewPCG(seed, 1)), Met: make(map[string]int), set: set, log: sha256.New(),
		hung: make([]time.Duration, set.Nodes), revived: make([]time.Duration, set.Nodes), calm: set.Calm,
	}
	skew := set.Clocks
	if skew == 0 {
		skew = time.Second
	}
	for i := range set.Nodes {
		n := memnode.New(fmt.Sprint("node", i), w.Wall)
		n.SkewClock(time.Duration(w.Rand.Int64N(2*int64(skew)))-skew, w.Rate())
		if set.NoKill {
			n.Refuse(seam.Kill, errNoKill)
		}
		w.Nodes = append(w.Nodes, n)
	}
	return w
}

var errNoKill = errors.New("NOPERM this user has no permissions to run the 'client|kill' command")

// Add makes a client one of the world.
func (w *World) Add(c Client) {
	w.clients = append(w.clients, c)
	w.paused = append(w.paused, 0)
}

// Now is the true time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// Wall is the true time as a date.
func (w *World) Wall() time.Time { return time.Unix(1_700_000_000, 0).Add(w.now) }

// Rate is a clock's rate within the bound: the drift allows one percent between
// any two.
func (w *World) Rate() float64 { return 1 + (w.Rand.Float64()-0.5)*0.009 }

// After puts an event into the queue.
func (w *World) After(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.order, do})
}

// For puts an event of client c into the queue: while its process is stopped
// nothing happens in it.
func (w *World) For(c int, d time.Duration, do func()) {
	w.After(d, func() { w.when(c, do) })
}

func (w *World) when(c int, do func()) {
	if w.now >= w.paused[c] {
		do()
		w.touch(c)
		return
	}
	w.After(w.paused[c]-w.now, func() { w.when(c, do) })
}

// touch lets a client do what the event made it want.
func (w *World) touch(c int) {
	if w.now >= w.paused[c] {
		w.touched = append(w.touched, c)
	}
}

// Note writes to the log, of which Digest is the hash.
func (w *World) Note(format string, args ...any) {
	w.line = fmt.Appendf(w.line[:0], "%d ", w.now)
	w.line = fmt.Appendf(w.line, format, args...)
	w.line = append(w.line, '\n')
	_, _ = w.log.Write(w.line) // a hash takes everything
	if w.Trace != nil {
		w.Trace(string(w.line[:len(w.line)-1]))
	}
}

// Digest is the hash of everything that happened.
func (w *World) Digest() string { return hex.EncodeToString(w.log.Sum(nil)) }

// Violated records the first violation, which ends the run.
func (w *World) Violated(format string, args ...any) {
	if w.Broken == "" {
		w.Broken = fmt.Sprintf("at %v: ", w.now) + fmt.Sprintf(format, args...)
		w.Note("%s", w.Broken)
	}
}

// Delay is how long a message takes: mostly little, sometimes far too much.
func (w *World) Delay() time.Duration {
	if !w.calm && w.Rand.IntN(20) == 0 {
		return time.Duration(w.Rand.Int64N(int64(4 * w.set.TTL)))
	}
	return time.Duration(w.Rand.ExpFloat64() * float64(2*time.Millisecond))
}

// Calm ends the faults: from now on every message arrives, soon.
func (w *World) Calm() { w.calm = true }

// Send carries a batch to node i and hands over what came back: the error is
// nil, or the connection broke. The batch may be executed long after whoever
// sent it has given up, as from the buffer of a stopped server.
func (w *World) Send(i int, s *memnode.Session, calls []seam.Call, answered func(replies []seam.Reply, err error)) {
	replies := make([]seam.Reply, len(calls))
	w.After(w.Delay(), func() { w.arrive(i, s, calls, replies, answered) })
}

func (w *World) arrive(i int, s *memnode.Session, calls []seam.Call, replies []seam.Reply, answered func([]seam.Reply, error)) {
	if w.now < w.hung[i] {
		w.After(w.hung[i]-w.now, func() { w.arrive(i, s, calls, replies, answered) })
		return
	}
	err := w.Nodes[i].Exec(s, calls, replies)
	w.Note("node %d executes %d calls: %v", i, len(calls), err)
	if w.Trace != nil {
		for k := range calls {
			w.Trace(fmt.Sprintf("    %v %s %s: %v", calls[k].Op, calls[k].Key, calls[k].Token, replies[k].Code))
		}
	}
	if !w.calm && w.Rand.IntN(100) == 0 {
		w.Note("its answer is lost")
		return
	}
	w.After(w.Delay(), func() { answered(replies, err) })
}

// Run plays until the given time, or until something is violated.
func (w *World) Run(until time.Duration) {
	for w.Broken == "" {
		if len(w.queue) == 0 || w.queue[0].at > until {
			w.now = until
			return
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		for len(w.touched) > 0 {
			last := len(w.touched) - 1
			c := w.touched[last]
			w.touched = w.touched[:last]
			w.clients[c].Pump()
		}
	}
}
