package redlock

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// A debt is a delete that a node owes us: a release that was never answered, or
// never sent because the lane was down. It is paid before the lane's next
// connection serves anything else. A call of unknown outcome always ends as
// one, because every token ends with a release on every node that was sent
// anything, and an owner that lives pays for itself by that.
type debt struct {
	key, token, hold string
	until            time.Duration // monotonic: drop it then; 0 = when it is answered
}

// lostConn is a connection of ours that broke. Calls that it carried may still
// lie in the server's buffer, and run when the server wakes (hazard H1).
type lostConn struct {
	id    int64
	addr  string
	runID string        // ids start at 1 again when a server restarts: never kill a stranger
	until time.Duration // monotonic: it could not be killed, and what it wrote is gone then
	call  int           // index of its Kill in the batch that is out, -1 for none
}

const (
	// maxDebts bounds what one lane owes. The oldest goes first: its key has
	// lived longest and dies with its TTL.
	maxDebts = 1 << 14
	// maxLost bounds the broken connections that a lane remembers.
	maxLost = 8
)

// owe makes a debt of a release. An undo of something that was never sent owes
// nothing, and neither does one whose token lives: its owner releases it in the
// end, and a late delete could take a vote that counts.
func (l *lane) owe(c *call) {
	if c.t == nil || c.undo && !c.t.over.Load() && !l.n.ward.mutant.has(mutantLateUndo) || !c.t.sent[l.n.index] || l.n.ward.mutant.has(mutantNoDebts) {
		return
	}
	for i := range l.debts {
		if l.debts[i].token == c.t.token {
			return
		}
	}
	l.owes(debt{key: c.t.key, token: c.t.token, hold: c.t.hold})
	for i := range c.t.also {
		n := &c.t.also[i]
		l.owes(debt{key: n.Key, token: c.t.token, hold: n.LabelKey})
	}
}

func (l *lane) owes(d debt) {
	if len(l.debts) >= maxDebts {
		l.debts = append(l.debts[:0], l.debts[1:]...)
	}
	l.debts = append(l.debts, d)
}

// paid ends the debt of a token whose delete was answered another way.
func (l *lane) paid(token string) {
	l.debts = slices.DeleteFunc(l.debts, func(d debt) bool { return d.token == token })
}

// remember keeps a connection that broke, to be killed.
func (l *lane) remember(c lostConn) {
	l.clientID = 0
	if len(l.lost) == maxLost {
		l.lost = append(l.lost[:0], l.lost[1:]...)
	}
	l.lost = append(l.lost, c)
}

// payDebts puts the kills of lost connections and the deletes that are owed at
// the head of a batch.
func (l *lane) payDebts(now moment) {
	kept := l.lost[:0]
	for _, c := range l.lost {
		// Of another process nothing remains; of one that could not be killed,
		// nothing either once all that it wrote has expired.
		stranger := c.runID != l.runID && !l.n.ward.mutant.has(mutantKillsStrangers)
		if stranger || l.n.ward.mutant.has(mutantNoKill) || c.until != 0 && now.mono >= c.until {
			continue
		}
		kept = append(kept, c)
	}
	l.lost = kept
	for i := range l.lost {
		c := &l.lost[i]
		if c.call = -1; c.id == 0 { // the server does not tell ids, so it cannot be killed either
			if c.until == 0 {
				c.until = now.mono + l.n.ward.maxTTL
			}
			continue
		}
		c.call = l.killsOut
		l.calls = append(l.calls, seam.Call{Op: seam.Kill, ClientID: c.id, Addr: c.addr})
		l.killsOut++
	}
	for i := range l.debts {
		if l.debtsOut == maxBatch {
			break
		}
		d := &l.debts[i]
		l.calls = append(l.calls, seam.Call{Op: seam.Release, Key: d.key, Token: d.token, LabelKey: d.hold})
		l.debtsOut++
	}
}

// settle reads what became of the kills and the deletes. Where all lost
// connections are known dead, one answered delete is the end of a debt; where
// one cannot be killed (no right to, or a server that does not tell addresses)
// the deletes are repeated, each time the lane is used, for as long as a key
// may live that a buffered call still writes.
func (l *lane) settle(now moment) {
	kept := l.lost[:0]
	for _, c := range l.lost {
		if l.killsOut > 0 && c.call >= 0 {
			switch r := &l.replies[c.call]; r.Code {
			case seam.OK:
				l.n.killRefused = nil
				continue
			case seam.Error:
				l.n.killRefused = r.Err
				if c.until == 0 {
					c.until = now.mono + l.n.ward.maxTTL
				}
			}
		}
		kept = append(kept, c)
	}
	l.lost = kept
	unsure := len(l.lost) > 0 && !l.n.ward.mutant.has(mutantShortDebts)
	owed := l.debts[:0]
	for i, d := range l.debts {
		if i < l.debtsOut {
			r := &l.replies[l.killsOut+i]
			if r.Code == seam.Deleted || r.Code == seam.Gone {
				if !unsure || d.until != 0 && now.mono >= d.until {
					continue
				}
				if d.until == 0 {
					d.until = now.mono + l.n.ward.maxTTL
				}
			}
		}
		owed = append(owed, d)
	}
	clear(l.debts[len(owed):])
	l.debts = owed
}
