package redlock

import (
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is a lane's life as a state machine without goroutine, connection
// or clock: one connection to one node and what waits for it. The shell
// (voter.go) and the simulator ask it what it wants, do that, and tell it what
// came of it. All of it is guarded by its node.

type phase uint8

const (
	phaseCold     phase = iota // never connected, or closed while idle
	phaseDialing               // a dial is out
	phaseGreeting              // connected; the connection check is next, or out
	phaseOpen                  // serves
	phaseDown                  // the last try failed; calls fail fast until a probe succeeds
)

const (
	maxQueue  = 1 << 16 // calls that wait for one lane; one more fails at once
	maxBatch  = 512     // calls in one pipeline; the others go with the next
	firstWait = 10 * time.Millisecond
	mostWait  = 500 * time.Millisecond
	factsAge  = time.Minute // the connection check is repeated when older
)

var errQueueFull = errors.New("too many calls wait for this node; it is slower than they come in")

// want is what a lane asks its shell to do.
type want uint8

const (
	wantNothing want = iota // until a call comes, or until wakeAt
	wantDial
	wantSend // calls and replies of the lane are the batch
	wantHangUp
)

type lane struct {
	n  *node
	id uint8

	phase    phase
	queue    []*call
	out      []*call // in flight, one for each of the first calls of the batch
	calls    []seam.Call
	replies  []seam.Reply
	checkAt  int // index of the closing check in calls, -1 without
	sealAt   int // index of a Seal call, -1 without
	killsOut int // the first calls are this many kills…
	debtsOut int // …and after them this many deletes that are owed
	outAt    int // index of the first call of out in calls

	// What the connection check said of the connection that is open, or was.
	clientID int64
	addr     string
	runID    string
	checked  instant // when
	sentAt   instant // when the batch in flight was sent

	lost    []lostConn // connections of unknown remains, to be killed
	debts   []debt
	fresh   bool // the connection is new: what is owed goes out before anything asks
	hangUp  bool // drop the connection before anything else
	failure error
	retryAt instant // phaseDown: not before
	backoff time.Duration
	probe   bool // dial at once, although nothing waits or the pause is not over
}

// submit takes a call. What it returns must be answered at once, outside the
// node's guard: the lane will not do it. Nil: the lane has it.
func (l *lane) submit(c *call, now moment) *answer {
	switch {
	case l.failing() && !c.patient:
		if c.op == seam.Release {
			l.owe(c)
		}
		return &answer{vote: l.n.failVote(l.failure), err: l.failure}
	case len(l.queue) >= maxQueue:
		if c.op == seam.Release {
			l.owe(c)
		}
		return &answer{vote: voteFailed, err: errQueueFull}
	case c.op == seam.Acquire:
		if a := l.n.abstains(now); a != nil {
			return a
		}
	}
	l.queue = append(l.queue, c)
	l.probe = l.probe || l.phase == phaseDown
	return nil
}

// failing says that the lane is down or being probed. (The first redial after a
// break is not failing: it is awaited.)
func (l *lane) failing() bool { return l.phase != phaseOpen && l.backoff > 0 }

// next says what the lane wants done now. For wantSend the batch is built:
// l.calls is to be run and l.replies filled. cancelled has calls that need no
// sending any more; they are answered by the shell, with code None.
func (l *lane) next(now moment, cancelled []*call) (want, []*call) {
	if l.hangUp || l.outdated(now) {
		l.hangUp = false
		if l.phase == phaseOpen {
			l.broke(errHungUp)
			l.lost = l.lost[:len(l.lost)-1] // every reply had come: nothing remains of it
		}
		return wantHangUp, cancelled
	}
	switch l.phase {
	case phaseCold:
		if len(l.queue) == 0 && !l.probe {
			return wantNothing, cancelled
		}
	case phaseDown:
		if !l.probe && l.retryAt.mono > now.mono {
			return wantNothing, cancelled
		}
	case phaseGreeting:
		l.begin()
		l.calls = append(l.calls, l.n.helloCall())
		return l.send(now), cancelled
	case phaseOpen:
		return l.fill(now, cancelled)
	case phaseDialing:
		return wantNothing, cancelled
	}
	l.probe = false
	l.phase = phaseDialing
	return wantDial, cancelled
}

// wakeAt is when next may want something although no call came: the probe of a
// node that is down. False: never.
func (l *lane) wakeAt() (time.Duration, bool) {
	if l.phase != phaseDown {
		return 0, false
	}
	return l.retryAt.mono, true
}

// dialled tells the lane that it is connected, or why not. failed has the calls
// that waited for it, for the shell to answer with l.failure.
func (l *lane) dialled(err error, now moment) (failed []*call) {
	if err != nil {
		return l.down(explain(err), now)
	}
	l.phase = phaseGreeting
	return nil
}

// down is a dial or a connection check that failed. Everything that waits fails
// now, and what comes later fails fast, until a probe succeeds.
func (l *lane) down(err error, now moment) (failed []*call) {
	l.n.ask()
	l.failure = err
	l.phase = phaseDown
	l.backoff = min(max(2*l.backoff, firstWait), mostWait)
	l.retryAt = now.instant
	l.retryAt.mono += l.backoff
	failed, l.queue = l.queue, nil
	for _, c := range failed {
		if c.op == seam.Release || c.op == opRecheck {
			l.owe(c)
		}
	}
	l.n.laneDown(err)
	return failed
}

// broke is a connection that is of no more use. What was in flight on it and
// has no reply is of unknown outcome: the server may still have it in a buffer
// and run it later (hazard H1), so the connection is remembered, to be killed.
func (l *lane) broke(err error) {
	l.failure = err
	if l.phase == phaseOpen {
		l.n.laneBroke()
		l.remember(lostConn{id: l.clientID, addr: l.addr, runID: l.runID})
	}
	l.phase = phaseCold
	l.probe = true // redial at once: what waits is not failed, it waits for that
}

// opened is the connection check that went well.
func (l *lane) opened(r *seam.Reply, now moment) {
	f := r.Facts
	l.clientID, l.addr, l.runID = f.ClientID, f.Addr, f.RunID
	l.checked = now.instant
	l.phase = phaseOpen
	l.backoff = 0
	l.failure = nil
	l.fresh = true
	if l.n.group {
		for _, other := range l.n.lanes {
			if other != l && other.phase == phaseOpen && other.runID != l.runID {
				other.hangUp = true // the group has another master now
			}
		}
	}
	l.n.laneUp()
}

// begin empties the batch.
func (l *lane) begin() {
	clear(l.calls) // don't keep strings of old batches alive
	clear(l.replies)
	l.calls, l.replies, l.out = l.calls[:0], l.replies[:0], l.out[:0]
	l.checkAt, l.sealAt, l.outAt, l.debtsOut = -1, -1, 0, 0
	l.killsOut = 0
}

// send closes the batch.
func (l *lane) send(now moment) want {
	if cap(l.replies) < len(l.calls) {
		l.replies = make([]seam.Reply, len(l.calls), 2*len(l.calls))
	}
	l.replies = l.replies[:len(l.calls)]
	l.sentAt = now.instant
	return wantSend
}

// helloError says why a server that answered the connection check cannot vote.
// Nil: it can.
func (n *node) helloError(r *seam.Reply) error {
	if r.Code != seam.OK || r.Facts == nil {
		if r.Err == nil {
			return errors.New("no answer to the connection check")
		}
		return explain(r.Err)
	}
	f := r.Facts
	if f.Mode == "sentinel" {
		return &ConfigError{What: "node " + n.name, Rule: "is a Sentinel, not a Redis master; list the master, or the group as redis+sentinel://"}
	}
	if n.votes > 0 && f.Mode != "cluster" {
		return &ConfigError{What: "node " + n.name, Rule: "is reached as a Redis Cluster, but the server is none; use Master (redis://) for it"}
	}
	if n.votes == 0 && f.Mode == "cluster" {
		return &ConfigError{What: "node " + n.name, Rule: clusterMember}
	}
	if !r.Master {
		return errReplica
	}
	if r.Replid == "" {
		return errors.New("INFO replication shows no master_replid, without which a restart cannot be told; " +
			"connect to the server itself instead of a proxy")
	}
	if err := n.ward.meet(n.place, f.RunID); err != nil {
		return err
	}
	if n.ward.mode == modeStrict && !n.ward.mutant.has(mutantEvicting) && f.MaxMemory > 0 && f.Policy != "noeviction" {
		return &ConfigError{
			What: "node " + n.name, Value: "maxmemory-policy " + f.Policy,
			Rule: "would evict locks that are held; set maxmemory-policy noeviction on a server that carries locks",
		}
	}
	return nil
}

var errHungUp = errors.New("the connection led to a server that cannot vote")

var errReplica = errors.New("it is a replica, and a vote on it would be lost at the next sync; list its master instead")
