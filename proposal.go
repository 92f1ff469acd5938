package redlock

import "time"

// This file is what is known of the nodes' clocks, for which number an attempt with
// a fence proposes: one that all nodes take makes a write-back needless.

// told takes the TIME that a node told in its answer to an acquire, and says how far
// its clock is ahead of our monotonic one, in µs: to within half a round trip.
func (n *node) told(time int64, sent instant, now moment) (ahead int64) {
	slow := n.nodeTime + (sent.mono - n.factsAt.mono).Microseconds() - fenceLead.Microseconds()
	fast := n.nodeTime + (now.mono - n.factsAt.mono).Microseconds()
	if !n.haveFact || time < slow || time > fast {
		n.correct(time, sent) // its clock was set, or runs at another rate
	}
	return time - ((sent.mono + now.mono) / 2).Microseconds()
}

// block is how many numbers a node is asked for.
func (n *node) block(f *fencing) int64 {
	if n.ward.mutant.has(mutantBlockStart) {
		return 1
	}
	return f.block
}

// raiseLimit is how far a write-back may be ahead of a node's clock.
func (n *node) raiseLimit(f *fencing) int64 {
	if n.ward.mutant.has(mutantFarWriteBack) {
		return 1 << 53
	}
	return f.limit
}

// propose is the number that an attempt at the given moment asks the nodes for, or
// zero where no node's clock is known: a little ahead of the highest clock that the
// nodes with a median clock will follow.
func propose(clocks []int64, now time.Duration) int64 {
	if len(clocks) == 0 {
		return 0
	}
	most := median(clocks)
	for _, c := range clocks {
		if c > most && c-most <= (fenceReach-fenceLead).Microseconds() {
			most = c
		}
	}
	return most + (now + fenceLead).Microseconds()
}

// propose gathers the clocks of the nodes with which what has the given spot stands.
func (l *Locker) propose(spot string, from moment) int64 {
	var buf [inlineNodes]int64
	clocks := buf[:0]
	for _, v := range l.voters {
		if ahead := v.of(spot).n.ahead.Load(); ahead != 0 {
			clocks = append(clocks, ahead)
		}
	}
	return propose(clocks, from.mono)
}
