package redlock

import (
	"github.com/redlock-go/redlock/internal/seam"
)

// freed is where a Release stands.
type freed uint8

const (
	freeOpen   freed = iota
	freeDone         // a majority answered, and nothing speaks against it
	freeLost         // a majority of those that had confirmed the lease had it no more
	freeNoNode       // no majority answered
)

// releaseAll begins a Release: from now on no acquire and no extend of the
// token goes out (promise P8), and the caller sends a release to every node, with
// the sequence number that it returns: an answer to an earlier call that is late
// is none to this one.
// It does not wait for an extend in flight: its delete follows on the same
// lane.
func (h *hold) releaseAll() uint32 {
	h.seq++
	h.state = stateReleasing
	h.over.Store(true)
	h.out = false
	for i := range h.nodes {
		n := &h.nodes[i]
		n.code, n.err = seam.None, nil
	}
	return h.seq
}

// released takes a node's answer to the release of round seq.
func (h *hold) released(i int, seq uint32, a *answer) freed {
	n := &h.nodes[i]
	if h.state != stateReleasing || seq != h.seq {
		return freeOpen
	}
	n.code, n.err = a.code, a.err
	switch {
	case a.code == seam.Gone && (!n.confirmed || n.owed || a.quarantined):
		n.code = seam.Deleted // it never had it, forgot it, or our own late delete was there first
	case a.code == seam.Gone:
		n.err = errGone
	case a.code != seam.Deleted:
		n.owed = true
		if n.err == nil {
			n.err = errNoReply
		}
	}
	return h.judgeRelease(false)
}

// judgeRelease decides (promise P7).
func (h *hold) judgeRelease(final bool) freed {
	need := majority(len(h.nodes))
	good, gone, failed, confirmed := 0, 0, 0, 0
	for i := range h.nodes {
		n := &h.nodes[i]
		if n.confirmed {
			confirmed++
		}
		switch {
		case n.code == seam.Deleted:
			good++
		case n.code == seam.Gone:
			gone++
		case n.err != nil || final:
			failed++
		}
	}
	switch {
	case gone > 0 && gone >= majority(confirmed):
		return freeLost
	case good >= need:
		return freeDone
	case good+gone+failed == len(h.nodes), failed > len(h.nodes)-need:
		return freeNoNode
	}
	return freeOpen
}

// releaseExpired is the node timeout of a Release.
func (h *hold) releaseExpired() freed {
	for i := range h.nodes {
		if n := &h.nodes[i]; n.code == seam.None && n.err == nil {
			n.err, n.owed = errSilent, true
		}
	}
	return h.judgeRelease(true)
}

// releaseTally counts a release for its QuorumError.
func (h *hold) releaseTally() (granted, held, failed, pending int) {
	for i := range h.nodes {
		if h.nodes[i].code == seam.Deleted {
			granted++
		} else {
			failed++
		}
	}
	return granted, 0, failed, 0
}
