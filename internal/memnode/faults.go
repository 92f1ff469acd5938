package memnode

import (
	"maps"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Kill makes the node refuse connections and cuts those that it has. Its memory
// is kept, as with an append-only file.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	n.hung = false
	n.cutAll()
}

func (n *Node) cutAll() {
	n.backlog = nil
	for s := range n.sessions {
		n.cut(s)
	}
}

// Start lets a killed node serve again, as a new process with what the old one
// had in memory. A node that serves is left alone.
func (n *Node) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		n.down = false
		n.reborn()
	}
}

// Forget restarts the node with empty memory; a killed one starts.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.hung = false, false
	n.cutAll()
	n.data = make(map[string]entry)
	n.reborn()
}

// Flush empties the memory under the live connections: FLUSHALL.
func (n *Node) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = make(map[string]entry)
}

// Hang stops the node as SIGSTOP does: connections and calls are taken, and
// executed when it resumes, also for clients that have given up by then. A
// killed node has no process that could hang.
func (n *Node) Hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hung = !n.down
}

// Resume ends Hang and executes, in order, what came meanwhile, except for
// sessions that a CLIENT KILL among it ended first.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hung {
		return
	}
	n.hung = false
	backlog := n.backlog
	n.backlog = nil
	for _, r := range backlog {
		r.err, r.late = n.exec(r.s, r.calls, r.replies), n.lateness()
		close(r.done)
	}
	for s := range n.sessions {
		if s.left {
			n.cut(s)
		}
	}
}

// Delay makes every reply late by d, although the call is executed at once; 0
// ends that.
func (n *Node) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// LoseReplies makes the node execute calls without answering.
func (n *Node) LoseReplies(lose bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = lose
}

// Refuse makes the node answer calls of one op with an error; nil ends that.
func (n *Node) Refuse(op seam.Op, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse[op] = err
}

// RefuseAll makes the node answer every call with an error; nil ends that.
func (n *Node) RefuseAll(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuseAll = err
}

// SkewClock puts the node's clock at offset from true time and lets it run at
// rate from now on. Keys expire by that clock.
func (n *Node) SkewClock(offset time.Duration, rate float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base, n.offset, n.rate = n.now(), offset, rate
}

// StepClock moves the node's clock by d, as an administrator or NTP would; its
// rate stays.
func (n *Node) StepClock(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offset += d
}

// Demote makes the node a replica, which refuses writes.
func (n *Node) Demote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replica = true
}

// Promote makes it a master again, with a new replication history.
func (n *Node) Promote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replica = false
	n.newHistory()
}

// Snapshot is a copy of the data set.
type Snapshot struct{ data map[string]entry }

// Snapshot copies the data set, as a replica has it that lags from now on.
func (n *Node) Snapshot() Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Snapshot{maps.Clone(n.data)}
}

// Restore is REPLICAOF a lagging copy and back: the copy's data under a new
// replication history. Connections, their ids and the run_id stay.
func (n *Node) Restore(s Snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = maps.Clone(s.data)
	n.newHistory()
}

// SetMaxMemory sets maxmemory and its policy, as INFO shows them.
func (n *Node) SetMaxMemory(bytes int64, policy string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.maxMemory, n.policy = bytes, policy
}
