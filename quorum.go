package redlock

import "time"

// This file is one voting round as a pure state machine. It knows no Redis, no
// goroutine and no clock: votes come in, a verdict comes out.

// vote is how one node stands in a round.
type vote uint8

const (
	votePending vote = iota // no answer yet
	voteGranted             // it counts for us
	voteHeld                // it counts for somebody else
	voteFailed              // it does not count: an error, quarantine, no answer in time
	voteConfig              // it does not count and will not: a kind of configuration error
	voteForeign             // it carries a foreign seal, which ends the round (promise P2)
)

// verdict is where a round stands.
type verdict uint8

const (
	undecided verdict = iota
	granted           // a majority granted
	held              // a majority voted, and we cannot get one
	noQuorum          // a majority cannot vote any more
	badConfig         // no majority is possible without nodes that are misconfigured, or one has a foreign seal
)

func (v verdict) String() string {
	return [...]string{"undecided", "granted", "held", "no quorum", "configuration"}[v]
}

// majority is how many of n nodes make a quorum.
func majority(n int) int { return n/2 + 1 }

// round counts votes. The zero round has no nodes; newRound makes one.
type round struct {
	votes   []vote
	need    int
	counts  [voteForeign + 1]int
	outcome verdict
}

// newRound is a round of n nodes with no vote yet. A buffer for the votes may
// be given, to save an allocation.
func newRound(n int, buf []vote) round {
	r := round{votes: append(buf[:0], make([]vote, n)...), need: majority(n)}
	r.counts[votePending] = n
	return r
}

// cast records the vote of node i and returns the verdict. The first vote of a
// node counts, a second one is ignored. Votes that come after the verdict are
// recorded and change it no more, except a late grant: see late in attempt.
func (r *round) cast(i int, v vote) verdict {
	if r.votes[i] != votePending || v == votePending {
		return r.outcome
	}
	r.votes[i] = v
	r.counts[votePending]--
	r.counts[v]++
	if r.outcome == undecided {
		r.outcome = r.judge()
	}
	return r.outcome
}

// recast replaces all votes, in a round where an answer may change what the others
// are worth. After the verdict nothing changes any more.
func (r *round) recast(votes []vote) verdict {
	if r.outcome != undecided {
		return r.outcome
	}
	copy(r.votes, votes)
	clear(r.counts[:])
	for _, v := range votes {
		r.counts[v]++
	}
	r.outcome = r.judge()
	return r.outcome
}

// expire is the end of the node timeout: who has not voted, does not.
func (r *round) expire() verdict {
	if r.outcome == undecided {
		r.outcome = r.judgeFinal()
	}
	return r.outcome
}

// judge decides as early as the votes allow (design section 4): granted at a
// majority; held or no quorum as soon as what is still open cannot matter.
func (r *round) judge() verdict {
	n := len(r.votes)
	open := r.counts[votePending]
	failed := r.counts[voteFailed] + r.counts[voteConfig]
	voted := r.counts[voteGranted] + r.counts[voteHeld]
	switch {
	case r.counts[voteForeign] > 0:
		return badConfig
	case r.counts[voteGranted] >= r.need:
		return granted
	case r.counts[voteGranted]+open >= r.need:
		return undecided // a majority for us is still possible
	case voted >= r.need:
		return held
	case failed > n-r.need:
		return r.failure()
	}
	return undecided // who won is clear, whether a majority votes is not
}

// judgeFinal decides when no further vote will come.
func (r *round) judgeFinal() verdict {
	if r.counts[voteGranted]+r.counts[voteHeld] >= r.need {
		return held
	}
	return r.failure()
}

// failure tells a round that trouble ended from one that configuration ended:
// the latter only when the nodes without such a fault cannot make a majority.
func (r *round) failure() verdict {
	if r.counts[voteConfig] > len(r.votes)-r.need {
		return badConfig
	}
	return noQuorum
}

// tally gives the counts of a QuorumError; the four add up to N.
func (r *round) tally() (granted, held, failed, pending int) {
	return r.counts[voteGranted], r.counts[voteHeld],
		r.counts[voteFailed] + r.counts[voteConfig] + r.counts[voteForeign], r.counts[votePending]
}

// retryAfter is when a lost round may first be won: the time after which enough
// of the nodes that did not grant are free, each given with what it still
// waits for. It is zero when that is not known. left is sorted in place.
func (r *round) retryAfter(left []time.Duration) time.Duration {
	missing := r.need - r.counts[voteGranted]
	if missing <= 0 || len(left) < missing {
		return 0
	}
	// Insertion sort: at most N entries, and no allocation.
	for i := 1; i < len(left); i++ {
		for j := i; j > 0 && left[j] < left[j-1]; j-- {
			left[j], left[j-1] = left[j-1], left[j]
		}
	}
	return left[missing-1]
}
