// Package memnode is a Redis master in memory: it answers the calls of package
// seam as redis-server 7.0 does with the scripts of this module, and has the
// faults that tests, the demo and the simulator want. A differential test in
// the root package holds it equal to a real server.
package memnode

import (
	"crypto/sha1" // #nosec G505 -- ids of 40 hex digits, not security
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Node is one server. All methods are safe for concurrent use.
type Node struct {
	name string
	now  func() time.Time

	mu       sync.Mutex
	data     map[string]entry
	life     int // processes so far
	history  int // replication histories so far
	runID    string
	replid   string
	replica  bool
	down     bool
	hung     bool
	sessions map[*Session]struct{}
	lastID   int64      // client ids of this process so far
	accepted int        // connections of all processes so far
	backlog  []*request // what came while it hung, in order
	commands int

	// The clock: true time since base, at rate, plus offset.
	base   time.Time
	offset time.Duration
	rate   float64
	micros int64     // the node's TIME at the last tick
	born   time.Time // true time at which the process started

	delay     time.Duration
	lose      bool
	refuse    map[seam.Op]error
	refuseAll error
	maxMemory int64
	policy    string

	ears map[*ear]struct{} // who listens; guarded by mu
}

// entry is one key.
type entry struct {
	value string
	list  bool  // a type that is no lock
	at    int64 // ms of the node's time; 0 = no TTL

	waiters []waiter // a sorted set; never changed in place, snapshots share it
}

// New starts a node with empty memory. now is true time; nil for time.Now.
func New(name string, now func() time.Time) *Node {
	if now == nil {
		now = time.Now
	}
	n := &Node{
		name: name, now: now, data: make(map[string]entry), sessions: make(map[*Session]struct{}),
		refuse: make(map[seam.Op]error), ears: make(map[*ear]struct{}), rate: 1, policy: "noeviction", base: now(),
	}
	n.reborn()
	return n
}

// reborn is a new process: new run_id, new replication history, no sessions.
func (n *Node) reborn() {
	n.life++
	n.born = n.now()
	n.runID = ident("run", n.name, n.life)
	n.lastID = 0
	n.replica = false
	n.newHistory()
}

func (n *Node) newHistory() {
	n.history++
	n.replid = ident("repl", n.name, n.history)
}

// ident is an id of 40 hex digits that looks like a server's and is the same in
// every run.
func ident(kind, name string, count int) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %s %d", kind, name, count)) // #nosec G401
	return hex.EncodeToString(sum[:])
}

// tick reads the clock. All that one call does happens at one moment, as in a
// script of Redis: a key that GET has seen cannot be gone at the PEXPIRE.
func (n *Node) tick() {
	since := time.Duration(float64(n.now().Sub(n.base)) * n.rate)
	n.micros = n.base.Add(since + n.offset).UnixMicro()
}

func (n *Node) millis() int64 { return n.micros / 1000 }

// get is the entry at a key, unless its time is up. With a PTTL of 0 it still
// stands, as in Redis, and goes with the next millisecond.
func (n *Node) get(key string) (entry, bool) {
	e, ok := n.data[key]
	if ok && e.at != 0 && n.millis() > e.at {
		delete(n.data, key)
		return entry{}, false
	}
	return e, ok
}

// pttl is PTTL: -1 without TTL, -2 without key.
func (n *Node) pttl(key string) int64 {
	e, ok := n.get(key)
	switch {
	case !ok:
		return -2
	case e.at == 0:
		return -1
	}
	return e.at - n.millis()
}

// Put sets a string key from outside; a ttl of 0 sets none.
func (n *Node) Put(key, value string, ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tick()
	e := entry{value: value}
	if ttl > 0 {
		e.at = n.millis() + ttl.Milliseconds()
	}
	n.data[key] = e
}

// PutList sets a key that is a list.
func (n *Node) PutList(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data[key] = entry{list: true}
}

// Delete removes a key.
func (n *Node) Delete(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.data, key)
}

// Get reads a key and the time it has yet: -1 ns without TTL. A list has no
// value.
func (n *Node) Get(key string) (value string, ttl time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tick()
	e, ok := n.get(key)
	if !ok {
		return "", 0, false
	}
	return e.value, pttlOf(n.pttl(key)), true
}

// Keys lists the keys that stand, sorted.
func (n *Node) Keys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tick()
	var keys []string
	for key := range n.data {
		if _, ok := n.get(key); ok {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}

// Commands is how many calls were executed.
func (n *Node) Commands() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.commands
}

// RunID is the run_id of the process.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runID
}

// Replid is the master_replid.
func (n *Node) Replid() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replid
}

// pttlOf keeps PTTL's -1 and -2 as they are.
func pttlOf(ms int64) time.Duration {
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

// withPrefix lists string keys by prefix, sorted.
func (n *Node) withPrefix(prefix string) []string {
	var keys []string
	for key := range n.data {
		if e, ok := n.get(key); ok && !e.list && e.waiters == nil && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}
