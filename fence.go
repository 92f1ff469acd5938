package redlock

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Fence is a number that every grant of a name has, and that rises strictly in the
// order of the grants: above zero and below 2^53. A resource that remembers the
// highest one that it saw, and refuses what comes with a lower one, is safe from a
// holder that was paused past the end of its lease. It is zero without WithFencing.
type Fence uint64

// Value makes it an argument of database/sql, as an int64.
func (f Fence) Value() (driver.Value, error) {
	if f >= 1<<53 {
		return nil, &ConfigError{"fence", strconv.FormatUint(uint64(f), 10), "must be below 2^53; take the one that Lease.Fence gives"}
	}
	return int64(f), nil
}

// ErrClockSpread: the clocks of the nodes, or a name's counters on them, are too
// far apart for a fence. Found in the chain of an [ErrNoQuorum].
var ErrClockSpread = errors.New("redlock: clocks of the nodes too far apart")

const (
	// fencePrefix begins the key of a name's counter.
	fencePrefix = "redlock:f:"
	// fenceBlock is how many numbers a grant takes: its own, and one for every
	// hand-over that may follow inside the process.
	fenceBlock = maxHandOvers + 1
	// fenceLife is how long a counter lives at least after the last grant. Then the
	// nodes' clocks take over, which is monotone while they are not wrong by more.
	fenceLife = time.Hour
	// fenceLead is how far a proposal is ahead of the highest clock, so that a call
	// that had to wait in a pipeline still finds no clock that has passed it.
	fenceLead = 20 * time.Millisecond
	// fenceReach is how far a node lets itself be led; the scripts say the same.
	fenceReach = time.Second
)

// fencing is the fence of an attempt, nil without one. Like the hold, whose part it
// is, it is a machine without goroutine and clock.
type fencing struct {
	key     string        // of the counter
	keep    time.Duration // how long that lives
	block   int64         // how many numbers the grant takes: fenceBlock, 1 where there is no hand-over
	propose int64         // what the nodes are asked for, µs; 0 = nothing
	limit   int64         // how far a node may be from the median of all, µs: Q/4
	nodes   []fenceVote
	votes   []vote // as they count
	value   int64  // the end of the block that was won; written before any Raise is sent
	asks    []bool // whom the write-back goes to: where the lock is ours, or may yet be…
	back    round  // …and what they say
}

// fenceVote is what one node said.
type fenceVote struct {
	vote  vote  // before its clock was looked at
	known bool  // …which it told:
	clock int64 // TIME − our monotonic clock, µs
	end   int64 // of the block that it gave; 0 for none
}

// newFencing begins an attempt. q is the quarantine.
func newFencing(n int, key string, ttl, q time.Duration) *fencing {
	return &fencing{
		key: key, keep: max(10*ttl, fenceLife), block: fenceBlock, limit: q.Microseconds() / 4,
		nodes: make([]fenceVote, n), votes: make([]vote, n),
	}
}

// weigh takes a node's vote in a round with a fence. Which votes count is seen from
// all of them: a node whose clock or counter is far from the others' has none.
func (h *hold) weigh(i int, v vote, a *answer) verdict {
	if h.round.outcome != undecided {
		return h.round.cast(i, v)
	}
	f := h.fence
	if n := &f.nodes[i]; n.vote == votePending {
		n.vote = v
		if a.reply != nil && a.reply.Time > 0 {
			n.known, n.clock, n.end = true, a.clock, a.reply.Fence
		}
	}
	return h.recount(false)
}

// recount says where the round stands. A vote that is too far from the median waits
// until the last node has answered, or until the round is over: the median may move.
func (h *hold) recount(final bool) verdict {
	f := h.fence
	for i := range f.nodes {
		f.votes[i] = f.nodes[i].vote
	}
	open := !final && slices.Contains(f.votes, votePending)
	clock, end := f.medians()
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.vote != voteGranted || h.mutant.has(mutantNoSpread) {
			continue
		}
		h.nodes[i].err = f.spread(n, clock, end)
		switch {
		case h.nodes[i].err == nil:
		case open:
			f.votes[i] = votePending
		default:
			f.votes[i] = voteFailed
		}
	}
	return h.round.recast(f.votes)
}

// expire is the node timeout of an acquire.
func (h *hold) expire() verdict {
	if h.fence != nil {
		h.recount(true)
	}
	return h.round.expire()
}

// medians of the clocks of those that told them, and of the blocks' ends of those
// whose clocks are near.
func (f *fencing) medians() (clock, end int64) {
	clocks, ends := make([]int64, 0, inlineNodes), make([]int64, 0, inlineNodes)
	for i := range f.nodes {
		if n := &f.nodes[i]; n.known {
			clocks = append(clocks, n.clock)
		}
	}
	clock = median(clocks)
	for i := range f.nodes {
		if n := &f.nodes[i]; n.end > 0 && f.near(n.clock-clock) {
			ends = append(ends, n.end)
		}
	}
	return clock, median(ends)
}

// near says whether something is as near to a median as a fence allows.
func (f *fencing) near(by int64) bool { return max(by, -by) <= f.limit }

// median of some numbers; the mean of the middle two of an even count. It sorts them.
func median(of []int64) int64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	lower, upper := of[(len(of)-1)/2], of[len(of)/2]
	return lower + (upper-lower)/2
}

// spread is why a node's vote does not count; nil when it does.
func (f *fencing) spread(n *fenceVote, clock, end int64) error {
	for _, d := range [...]struct {
		by   int64
		what string
	}{{n.clock - clock, "clock"}, {n.end - end, "counter"}} {
		if !f.near(d.by) {
			return &spreadError{what: d.what, by: micros(d.by), limit: micros(f.limit), key: f.key}
		}
	}
	return nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// spreadError is a node that is too far from the others. It Is [ErrClockSpread].
type spreadError struct {
	what      string
	by, limit time.Duration
	key       string
}

func (e *spreadError) Error() string {
	side := "ahead of"
	if e.by < 0 {
		side = "behind"
	}
	mend := "set its clock (NTP)"
	if e.what == "fence" {
		return fmt.Sprintf("the fence would be more than %v ahead of its clock; %s", e.limit.Round(time.Millisecond), mend)
	}
	if e.what == "counter" {
		mend = "after its clock was mended and longer than the nodes' quarantine has passed, delete " + e.key + " there"
	}
	return fmt.Sprintf("its %s is %v %s the median of the nodes, and a fence allows %v; %s",
		e.what, e.by.Abs().Round(time.Millisecond), side, e.limit.Round(time.Millisecond), mend)
}

// Is is for errors.Is.
func (e *spreadError) Is(target error) bool { return target == ErrClockSpread }

// settle finds the fence of an attempt that a majority granted. What a majority gave
// alike stands on a majority already; else the highest has to be written back to one
// before the lease is anybody's, and settle is false: without that the next holder,
// over another majority, may get a lower one (hazards 5.1).
func (h *hold) settle() bool {
	f := h.fence
	if f == nil {
		return true
	}
	for i := range f.nodes {
		if h.round.votes[i] != voteGranted || f.nodes[i].end == 0 {
			continue
		}
		end, alike := f.nodes[i].end, 0
		for j := range f.nodes {
			if h.round.votes[j] == voteGranted && f.nodes[j].end == end {
				alike++
			}
		}
		if alike >= h.round.need {
			f.value = end
			return true
		}
		if f.value == 0 || end > f.value && !h.mutant.has(mutantAnyFence) {
			f.value = end
		}
	}
	if h.mutant.has(mutantNoWriteBack) {
		return true
	}
	f.back = newRound(len(f.nodes), nil)
	f.back.need = h.round.need
	if h.mutant.has(mutantLoneWriteBack) {
		f.back.need = 1
	}
	f.asks = make([]bool, len(f.nodes))
	for i, v := range h.round.votes {
		if f.asks[i] = v == voteGranted || v == votePending; !f.asks[i] {
			f.back.cast(i, voteFailed)
		}
	}
	return false
}

// raised takes a node's answer to the write-back.
func (h *hold) raised(i int, a *answer) verdict {
	f := h.fence
	v := voteFailed
	switch {
	case a.code == seam.Mine:
		v = voteGranted
	case h.state != stateAcquiring:
	case a.code == seam.Ahead:
		h.nodes[i].err = &spreadError{what: "fence", limit: micros(f.limit), key: f.key}
	case a.err != nil:
		h.nodes[i].err = a.err
	default:
		h.nodes[i].err = errGone
	}
	return f.back.cast(i, v)
}

// fenced says that the lease has the fence that it was asked to have.
func (h *hold) fenced() bool {
	f := h.fence
	return f == nil || f.back.votes == nil || f.back.outcome == granted
}

// number is the fence of the lease: the first of the block, and one more for every
// hand-over.
func (h *hold) number() Fence {
	if h.fence == nil {
		return 0
	}
	if h.mutant.has(mutantBlockStart) {
		return Fence(h.fence.value + int64(h.handed)) // #nosec G115 -- below 2^53
	}
	return Fence(h.fence.value - h.fence.block + 1 + int64(h.handed)) // #nosec G115 -- above zero, below 2^53
}

var errNoFence = errors.New("the fence could not be written to a majority in time; the name was given back")
