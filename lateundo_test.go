package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// storyLateUndo is what the simulator found with seed 80840, on one lane: a node
// restarts and is in quarantine, and what waited for its new connection is an
// acquire that others have made a lease of meanwhile, and that lease's extends.
// The acquire has no vote, the extends have.
func storyLateUndo(t *testing.T, m mutant) string {
	w := newWard([]string{"a", "b", "c"}, modeStrict, defaultPrefix, time.Second)
	w.mutant = m
	n := newNode(2, "c", 0, w, time.Second)
	l := n.lanes[0]
	l.phase = phaseOpen
	token := &tenure{key: "lock:x", token: "1-50", lane: make([]uint8, 3), sent: make([]bool, 3)}
	var now moment

	batch := func() (deletes bool) {
		wanted, _ := l.next(now, nil)
		if wanted != wantSend {
			return false
		}
		for i, c := range l.calls {
			r := seam.Reply{Code: seam.OK}
			switch c.Op {
			case seam.Extend:
				r.Code = seam.Mine
			case seam.Release:
				deletes = true
				r.Code = seam.Deleted
			case seam.Check:
				r = seam.Reply{
					Code: seam.OK, Master: true, Replid: "new", Seal: w.spec(2).text(2, "new"),
					Quarantined: true, QuarantineTTL: time.Second,
				}
			}
			l.replies[i] = r
		}
		for _, res := range l.replied(nil, now, nil) {
			if res.c.op == seam.Acquire {
				require.NotEqual(t, voteGranted, res.a.vote)
			}
		}
		return deletes
	}

	require.Nil(t, l.submit(&call{op: seam.Acquire, node: 2, t: token, ttl: time.Second}, now))
	require.Nil(t, l.submit(&call{op: seam.Extend, node: 2, t: token, ttl: time.Second}, now))
	require.False(t, batch())
	if batch() {
		return "the key of a living lease was deleted, after its extend had counted"
	}

	// With an extend that still waits the delete goes first, so that it cannot count.
	other := &tenure{key: "lock:y", token: "1-51", lane: make([]uint8, 3), sent: make([]bool, 3)}
	l.queue = append(l.queue, &call{op: seam.Acquire, node: 2, t: other, ttl: time.Second})
	wanted, _ := l.next(now, nil)
	require.Equal(t, wantSend, wanted)
	require.Nil(t, l.submit(&call{op: seam.Extend, node: 2, t: other, ttl: time.Second}, now))
	l.replies[0] = seam.Reply{Code: seam.OK}
	l.replies[1] = seam.Reply{
		Code: seam.OK, Master: true, Replid: "new", Seal: w.spec(2).text(2, "new"),
		Quarantined: true, QuarantineTTL: time.Second,
	}
	l.replied(nil, now, nil)
	wanted, _ = l.next(now, nil)
	require.Equal(t, wantSend, wanted)
	require.Equal(t, []seam.Op{seam.Release, seam.Extend}, []seam.Op{l.calls[0].Op, l.calls[1].Op})
	return ""
}

// An undo that was never answered is no debt while its token lives: debts are paid
// in portions, and one that comes late would delete what an extend has confirmed.
func TestUndoOfALivingTokenOwesNothing(t *testing.T) {
	w := newWard([]string{"a", "b", "c"}, modeStrict, defaultPrefix, time.Second)
	l := newNode(0, "a", 0, w, time.Second).lanes[0]
	token := &tenure{key: "lock:x", token: "t", lane: make([]uint8, 3), sent: []bool{true, true, true}}
	undo := &call{op: seam.Release, t: token, undo: true}
	l.owe(undo)
	require.Empty(t, l.debts)
	token.over.Store(true)
	l.owe(undo)
	require.Len(t, l.debts, 1)
}
