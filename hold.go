package redlock

import (
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file, keep.go and release.go are the life of one attempt and, if it
// wins, of the lease that it becomes, as step functions: (state, answer or
// instant) → (state, what to send). They know no goroutine, no channel and no
// clock; the shell (holder.go) and the simulator drive them.

type holdState uint8

const (
	stateAcquiring holdState = iota
	stateFailed              // the attempt did not win
	stateHeld
	stateLost      // ended by itself; what it left on the nodes was freed
	stateLeft      // ended by max hold or Close: the keys are left to their TTL or to Release
	stateReleasing // a Release is out
	stateUnfreed   // a Release found no majority: the deletes are owed, and may be tried again
	stateReleased
)

// nodeHold is what a lease knows of one node.
type nodeHold struct {
	confirmed bool      // it said OK or MINE, and that counted, in the last round that succeeded
	readded   bool      // the key was set again and may not count yet
	trusted   bool      // …it counts from the next round on: the node has granted nobody since
	cleared   bool      // …it counts from the next round on: a later round succeeded without it
	readdSeq  uint32    // …the newest round that was out when it was set again
	owed      bool      // a delete of ours may reach it late, so Gone proves nothing
	code      seam.Code // what it said in the round that is out
	counted   bool      // …and that counts
	err       error     // why it said nothing that counts
	server    string    // which master of a Cluster said it
}

// hold is the machine.
type hold struct {
	tenure
	drift  Drift
	ttl    time.Duration
	mutant mutant // guards that a test turned off
	state  holdState
	nodes  []nodeHold

	// Acquiring.
	round round
	lefts []time.Duration // what is left of the nodes' quarantines
	from  moment          // T0: before the first byte was sent

	// Held.
	valid   validity
	since   moment // when the lease was won, or handed over
	gen     uint32 // which Lease owns it: one more with every hand-over
	handed  int    // hand-overs in a row
	seq     uint32 // of the extend or release round that was sent last
	out     bool   // that round is not decided
	asked   moment // when it was sent
	sentTTL time.Duration
	fails   int // rounds that failed since the last one that succeeded
	renewed error

	// The end.
	lost *LostError
}

// voted takes a node's answer to the acquire.
func (h *hold) voted(i int, a *answer) verdict {
	if h.state == stateAcquiring {
		h.nodes[i].err = a.err
		if a.left > 0 {
			h.lefts = append(h.lefts, a.left)
		}
	}
	v := a.vote
	if v == voteGranted && h.twin(i, a.server) {
		v, h.nodes[i].err = voteConfig, errTwin
	}
	if v == voteGranted {
		h.nodes[i].confirmed, h.nodes[i].server = true, a.server
	}
	if h.fence != nil {
		return h.weigh(i, v, a)
	}
	return h.round.cast(i, v)
}

// won makes a lease of an attempt with a majority. False: the validity had
// ended by then, and the attempt is to be undone like any other that failed.
func (h *hold) won(now moment) bool {
	from := h.from
	if h.mutant.has(mutantValidFromReply) {
		from = now
	}
	h.valid = h.validFrom(from, h.ttl)
	h.since = now
	if h.valid.left(now.instant) <= 0 && !h.mutant.has(mutantWonLate) {
		h.state = stateFailed
		return false
	}
	h.state = stateHeld
	return true
}

// validFrom is the validity of a round that began at from.
func (h *hold) validFrom(from moment, ttl time.Duration) validity {
	if h.mutant.has(mutantNoDrift) {
		return validity{from: from, length: ttl}
	}
	return validFrom(from, ttl, h.drift)
}

// majority is how many nodes have to agree.
func (h *hold) majority() int {
	if h.mutant.has(mutantHalfQuorum) {
		return len(h.nodes) / 2
	}
	return majority(len(h.nodes))
}

// undoes says whether an attempt that failed, or a lease that was lost, has to be
// undone on a node: on every one that was ever sent it, also where no answer came
// (hazard H1), but for those that answered HELD and were sent nothing since. That
// is the answer to the one SET that ever bore the token: nothing below this lane
// sends a command twice (hazard H5). An extend may have brought the key there later.
func (h *hold) undoes(i int) bool {
	if h.mutant.has(mutantUndoGranted) {
		return h.round.votes[i] == voteGranted
	}
	extended := h.seq > 0 && !h.mutant.has(mutantHeldStays)
	return extended || h.round.votes[i] != voteHeld
}

// nodeErrors gathers what the nodes said that is no vote.
func (h *hold) nodeErrors(op string, names []string) *multierror.Error {
	var all *multierror.Error
	for i := range h.nodes {
		if err := h.nodes[i].err; err != nil {
			all = multierror.Append(all, ofNode(names[i], op, err))
		}
	}
	if all != nil {
		all.ErrorFormat = listErrors
	}
	return all
}

// alive says whether a holder may rely on the lease at this instant: the
// Context is done the margin before the validity ends (promise P6).
func (h *hold) alive(now instant) bool {
	return h.state == stateHeld && h.valid.left(now) > h.margin()
}

// margin is how much before the end of the validity the Context is done.
func (h *hold) margin() time.Duration {
	if h.mutant.has(mutantNoMargin) {
		return 0
	}
	return margin(h.ttl)
}

// end makes the lease lost. It is told once.
func (h *hold) end(reason LostReason, names []string) *LostError {
	if h.lost == nil {
		h.lost = &LostError{
			Names: h.names(), Reason: reason, Until: h.valid.until(),
			Nodes: h.nodeErrors("extend", names),
		}
	}
	h.state = stateLost
	if reason == LostMaxHold || reason == LostClosed {
		h.state = stateLeft
	}
	h.over.Store(true)
	h.out = false
	return h.lost
}
