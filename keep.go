package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// outcome is where an extend round stands.
type outcome uint8

const (
	roundOpen   outcome = iota
	roundKept           // a majority said MINE before the old validity ended
	roundFailed         // it cannot any more; the old validity stands
	roundLost           // a majority had the lease and has it no more: lost now
)

// extendAll begins an extend round: the caller sends an extend to every node,
// with the sequence number that it returns.
func (h *hold) extendAll(ttl time.Duration, now moment) uint32 {
	h.seq++
	h.out, h.asked, h.sentTTL = true, now, ttl
	for i := range h.nodes {
		n := &h.nodes[i]
		n.code, n.counted, n.err, n.server = seam.None, false, nil, ""
	}
	return h.seq
}

// extended takes a node's answer to the extend of round seq.
func (h *hold) extended(i int, seq uint32, a *answer, now moment) outcome {
	n := &h.nodes[i]
	if h.state != stateHeld {
		return roundOpen
	}
	if a.code == seam.Readded {
		// It repairs a node that forgot but proves no continuity, so it never
		// counts in its own round (hazard H29).
		n.readded, n.trusted, n.cleared = true, a.quarantined && n.confirmed, false
		n.readdSeq = h.seq
	}
	if seq != h.seq {
		return roundOpen
	}
	n.code = a.code
	n.counted = a.code == seam.Mine && h.counts(n) ||
		a.code == seam.Readded && h.mutant.has(mutantReaddedCounts)
	twin := n.counted && h.twin(i, a.server)
	if n.counted = n.counted && !twin; n.counted {
		n.server = a.server
	}
	if n.counted {
		n.readded = false
	}
	if n.err = a.err; n.err == nil && !n.counted {
		n.err = extendTrouble(a.code)
		if twin {
			n.err = errTwin
		}
	}
	if !h.out {
		// The round was decided without this node. That it confirmed in the
		// last successful round is still true.
		if h.renewed == nil && n.counted {
			n.confirmed = true
		}
		return roundOpen
	}
	return h.judgeExtend(now)
}

// counts says whether MINE of a node proves that it held our key without a gap.
func (h *hold) counts(n *nodeHold) bool {
	return !n.readded || n.trusted || n.cleared || h.mutant.has(mutantReaddedTrusted)
}

// judgeExtend decides a round as early as the answers allow.
func (h *hold) judgeExtend(now moment) outcome {
	need := h.majority()
	counted, dead, gone := 0, 0, 0
	for i := range h.nodes {
		n := &h.nodes[i]
		switch {
		case n.counted:
			counted++
		case n.code != seam.None || n.err != nil:
			dead++
		}
		had := n.confirmed || h.mutant.has(mutantLostByStrangers)
		if had && (n.code == seam.Readded || n.code == seam.Other || n.code == seam.Broken) {
			gone++ // nodes that never had the key do not count for this
		}
	}
	switch {
	case gone >= need:
		return roundLost
	case counted >= need:
		if h.valid.left(now.instant) <= 0 && !h.mutant.has(mutantLateExtend) {
			return h.extendFailed()
		}
		h.kept()
		return roundKept
	case dead > len(h.nodes)-need:
		return h.extendFailed()
	}
	return roundOpen
}

// kept moves the validity after a round that succeeded.
func (h *hold) kept() {
	h.valid = h.valid.extended(h.validFrom(h.asked, h.sentTTL))
	h.out, h.fails, h.renewed = false, 0, nil
	for i := range h.nodes {
		n := &h.nodes[i]
		n.confirmed = n.counted
		if n.readded && n.readdSeq < h.seq {
			n.cleared = true // this round was sent after it was set again, and did without it
		}
	}
}

// extendFailed ends a round without a majority. The old validity stands.
func (h *hold) extendFailed() outcome {
	h.out = false
	h.fails++
	return roundFailed
}

// extendExpired is the node timeout of an extend round.
func (h *hold) extendExpired() outcome {
	if !h.out {
		return roundOpen
	}
	for i := range h.nodes {
		if n := &h.nodes[i]; n.code == seam.None && n.err == nil {
			n.err = errSilent
		}
	}
	return h.extendFailed()
}

// lostReason tells why a lease is lost now.
func (h *hold) lostReason() LostReason {
	for i := range h.nodes {
		if h.nodes[i].code == seam.Broken {
			return LostBroken
		}
	}
	return LostTaken
}

// extendTrouble is what an answer that does not count means.
func extendTrouble(c seam.Code) error {
	switch c {
	case seam.Mine:
		return errReaddedEarlier
	case seam.Readded:
		return errReadded
	case seam.Other:
		return errOther
	case seam.Broken:
		return errBroken
	case seam.Stale:
		return errStale
	}
	return errNoReply
}

// extendTally counts an extend round for its QuorumError.
func (h *hold) extendTally() (granted, held, failed, pending int) {
	for i := range h.nodes {
		switch n := &h.nodes[i]; {
		case n.counted:
			granted++
		case n.code == seam.Other:
			held++
		case n.code == seam.None && n.err == nil:
			pending++
		default:
			failed++
		}
	}
	return granted, held, failed, pending
}
