package redlock

import "time"

// This file is how a process waits for a name: what whoever stands first in its
// line does next, as a state machine without goroutine, channel or clock. A
// wake-up is a hint and never a vote: whatever is lost, late or for nobody costs
// time, and the poll ends that. The shells are wait.go and the simulator.

type stage uint8

const (
	stageTry    stage = iota // a round over all nodes
	stageGated               // a round that asks the node first that woke us
	stageGap                 // between two tries after a wake-up, or standing back
	stageEnlist              // to be registered for a wake-up
	stageRest                // until a wake-up, or the poll
)

const (
	wakeTries = 3                      // rounds behind the gate after a wake-up; one over all nodes follows
	wakeGap   = 500 * time.Microsecond // between them: a wake-up can beat the deletes on the other nodes
	standBack = 2 * time.Millisecond   // how long the process that released leaves the name to whom it woke
	pollEvery = time.Second            // the safety net
	listLife  = 5 * time.Second        // of a list of waiters that nobody refreshes; a poll does
)

// vigil is the machine.
type vigil struct {
	node    int // where it is registered, -1 for nowhere
	stage   stage
	rested  bool // the rest before a poll is over
	back    bool // stand back: leave the name to others for a moment
	rounds  int  // that were lost
	until   time.Duration
	gate    int  // the node that woke us
	left    int  // tries behind the gate that are left
	working bool // a wake-up is being worked off
	woke    bool // one came and is not begun
	spent   bool // it was passed on to us: not to be passed on again after a try

	mutant mutant
}

func newVigil(m mutant) vigil { return vigil{node: -1, mutant: m} }

// view is what the machine sees of the world.
type view struct {
	now        time.Duration
	own        bool          // this process holds the name: hand-over, release or loss will tell
	designated int           // the first healthy node of the name's ranking, -1 for none
	down       bool          // the node where we are registered serves us no more
	firm       bool          // one and the same holder stands on a majority, so a wake-up can come
	retryAfter time.Duration // from when the name may be free; 0 = unknown
	backoff    time.Duration // the caller's
	poll       time.Duration // about pollEvery
}

type moveKind uint8

const (
	moveRest   moveKind = iota // for so long, or until something happens
	moveTry                    // over all nodes, or first the one at node
	moveEnlist                 // listen at node, and register there
)

type move struct {
	kind moveKind
	node int // -1 = all
	wait time.Duration
}

// next says what to do now. It may be asked any number of times.
func (v *vigil) next(c *view) move {
	if c.own {
		// It must not contend with itself. A wake-up that came is kept: the
		// release that ends this lease wakes the next.
		v.stage, v.left, v.working, v.woke = stageTry, 0, false, false
		return move{kind: moveRest, wait: c.poll}
	}
	if v.woke {
		v.woke, v.working, v.back = false, true, false
		v.stage, v.left = stageGated, wakeTries
	}
	for {
		switch v.stage {
		case stageGated:
			return move{kind: moveTry, node: v.gate}
		case stageEnlist:
			if c.designated >= 0 {
				return move{kind: moveEnlist, node: c.designated}
			}
			v.settled(c)
		case stageGap, stageRest:
			return move{kind: moveRest, wait: max(v.until-c.now, 0)}
		default:
			if v.mutant.has(mutantGatedPolls) && c.designated >= 0 {
				return move{kind: moveTry, node: c.designated}
			}
			return move{kind: moveTry, node: -1}
		}
	}
}

// settled goes on from the registration, whether or not there was a node for it.
func (v *vigil) settled(c *view) {
	switch {
	case v.back && !v.mutant.has(mutantNoStandBack):
		v.back, v.stage, v.until = false, stageGap, c.now+standBack
	case v.node >= 0 || v.rested || v.working:
		v.stage = stageTry // once more, now that no release can pass unheard
	default:
		v.rest(c)
	}
}

// enlisted is a registration that was answered.
func (v *vigil) enlisted(node int, c *view) {
	v.node = node
	if v.stage == stageEnlist {
		v.settled(c)
	}
}

// lost is a try that did not win. pass: the wake-up that led to it is to be
// passed on, once, lest it die with us while somebody else could have the name.
func (v *vigil) lost(c *view) (pass bool) {
	v.rounds++
	if v.stage == stageGated {
		v.left--
		v.stage, v.until = stageGap, c.now+wakeGap
		return false
	}
	pass = v.working && !v.spent && !v.mutant.has(mutantNoPassOn)
	v.working = false
	if c.down {
		v.node = -1
	}
	if v.node < 0 && (!v.rested || c.down) {
		v.stage, v.rested = stageEnlist, false
		return pass
	}
	v.rest(c)
	return pass
}

// rest begins the time until the poll. Where no wake-up can come (no node to
// register at, or nobody who could release: a split vote, no quorum) the
// caller's back-off counts.
func (v *vigil) rest(c *view) {
	d := c.backoff
	if v.node >= 0 {
		if d = min(d, c.poll); c.firm {
			d = c.poll
		}
	}
	if c.retryAfter > 0 {
		d = min(d, c.retryAfter+time.Millisecond)
	}
	v.stage, v.rested, v.until = stageRest, false, c.now+max(d, 0)
}

// slept is a rest that went by undisturbed.
func (v *vigil) slept() {
	switch {
	case v.stage == stageRest:
		v.stage, v.rested = stageEnlist, true // which refreshes the registration
	case v.stage == stageGap && v.left > 0:
		v.stage = stageGated
	case v.stage == stageGap && v.working:
		v.stage = stageEnlist // before the last try, so that it is a new waiter's
	case v.stage == stageGap:
		v.stage = stageTry
	}
}

// woken is a wake-up from a node: it took us off its list.
func (v *vigil) woken(node int, spent bool) {
	if v.node == node {
		v.node = -1
	}
	v.gate, v.woke, v.spent = node, true, spent
}

// deafened: the node where we were registered is gone, or what we hear it by.
func (v *vigil) deafened(node int) bool {
	if v.node != node {
		return false
	}
	if v.node = -1; v.stage == stageRest {
		v.stage, v.rested = stageEnlist, false
	}
	return true
}

// freed: a lease of this process on the name ended.
func (v *vigil) freed(back bool) {
	switch {
	case back:
		v.back, v.stage, v.rested = true, stageEnlist, false
	case v.stage == stageRest || v.stage == stageGap && !v.working:
		v.stage = stageTry
	}
}

// won ends the wait of whoever is first. What it returns is the node where we
// are still registered, -1 for none: the next in line is a new waiter.
func (v *vigil) won() (registered int) {
	registered = v.node
	*v = newVigil(v.mutant)
	return registered
}

// over ends the vigil: nobody is left in the line. pass has the node of a wake-up
// that led to nothing.
func (v *vigil) over() (registered, pass int) {
	pass = -1
	if (v.woke || v.working && !v.spent) && !v.mutant.has(mutantNoPassOn) {
		pass = v.gate
	}
	return v.won(), pass
}
