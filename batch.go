package redlock

import (
	"errors"
	"os"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file is how a lane builds a batch and reads its replies.

// fill builds the next batch of an open lane: what is owed, what waits, a seal
// if the node needs one, and the closing check if a vote is in it.
func (l *lane) fill(now moment, cancelled []*call) (want, []*call) {
	if len(l.queue) > 0 && now.since(l.checked) > factsAge {
		l.begin()
		l.calls = append(l.calls, l.n.helloCall())
		return l.send(now), cancelled
	}
	l.begin()
	if len(l.queue) > 0 || l.fresh {
		l.fresh = false
		l.payDebts(now)
	}
	check := false
	taken := 0
	abstains := l.n.abstains(now) != nil // known only since the calls were queued
	l.outAt = len(l.calls)
	for _, c := range l.queue {
		if len(l.out) == maxBatch {
			break
		}
		taken++
		if l.needless(c) || c.op == seam.Acquire && abstains {
			cancelled = append(cancelled, c)
			continue
		}
		if l.add(c, now) {
			check = true
		}
	}
	l.queue = dropFirst(l.queue, taken)
	if c, ok := l.n.sealCall(now); ok {
		l.sealAt = len(l.calls)
		l.n.sealing = true
		l.calls = append(l.calls, c)
	}
	if check {
		l.checkAt = len(l.calls)
		l.calls = append(l.calls, seam.Call{
			Op: seam.Check, SealKey: l.n.ward.sealKey, QuarantineKey: l.n.ward.quarantineKey,
		})
	}
	if len(l.calls) == 0 {
		return wantNothing, cancelled
	}
	return l.send(now), cancelled
}

// needless says that a call must not, or need not, go out any more.
func (l *lane) needless(c *call) bool {
	switch {
	case c.t == nil:
		return false
	case c.op == seam.Acquire || c.op == seam.Extend || c.op == seam.Raise:
		return c.t.over.Load() && !l.n.ward.mutant.has(mutantSendsAfterEnd) // promise P8, at the last moment before the bytes go out
	case c.op == seam.Release && c.undo:
		return !c.t.sent[l.n.index]
	}
	return false
}

// add puts a call into the batch and says whether it wants the closing check.
func (l *lane) add(c *call, now moment) (check bool) {
	l.out = append(l.out, c)
	if c.t == nil {
		l.calls = append(l.calls, *c.own)
		return c.op == seam.Check
	}
	t := c.t
	k := seam.Call{Op: c.op, Key: t.key, Token: t.token, LabelKey: t.hold, Also: t.also}
	switch c.op {
	case seam.Acquire:
		k.TTL, k.Label = c.ttl, t.label
		if f := t.fence; f != nil {
			k.FenceKey, k.Fence, k.Block, k.FenceTTL = f.key, f.propose, l.n.block(f), f.keep
		}
		t.sent[l.n.index] = true
		check = true
	case seam.Raise:
		f := t.fence
		k.LabelKey, k.FenceKey, k.Fence, k.FenceTTL, k.Limit = "", f.key, f.value, f.keep, l.n.raiseLimit(f)
		check = true
	case seam.Extend:
		k.TTL, k.Label, k.MarkKey = c.ttl, t.label, markKey(t.key)
		k.NotAfter = l.n.stamp(now.instant)
		if l.n.ward.mutant.has(mutantNoBreakMark) {
			k.MarkKey = ""
		}
		if l.n.ward.mutant.has(mutantExtendsFirst) {
			k.Also = nil
		}
		t.sent[l.n.index] = true
		check = true
	case seam.Release:
		k.KeepFor = c.ttl
		if !c.undo || l.n.ward.mutant.has(mutantUndoWakes) {
			k.WakeKey = t.wake // the undoing of a failed attempt wakes nobody
		}
	case opRecheck:
		// Rides on the check and needs no call of its own; a Probe keeps the
		// replies in step with the calls.
		k = seam.Call{Op: seam.Probe, Key: t.key}
		check = true
	}
	l.calls = append(l.calls, k)
	return check
}

// result is an answered call, to be handed to its sink by the shell.
type result struct {
	c *call
	a answer
}

// replied reads the replies of the batch that was out. err is Do's. The
// results, and the calls of failed that could not wait for a new connection,
// are for the shell to deliver.
func (l *lane) replied(err error, now moment, results []result) []result {
	if l.phase == phaseGreeting {
		return l.greeted(err, now, results)
	}
	if len(l.out) == 0 && len(l.calls) == 1 && l.calls[0].Op == seam.Hello {
		return l.regreeted(err, now, results)
	}
	if err == nil {
		l.n.rtt.measure(now.mono-l.sentAt.mono, now.mono)
	}
	l.settle(now)
	var st standing
	if l.checkAt >= 0 {
		st = l.n.assess(&l.replies[l.checkAt], now)
		l.hangUp = l.hangUp || st.drop
	}
	if l.sealAt >= 0 {
		l.n.sealed(&l.replies[l.sealAt], now)
	}
	var again []*call
	for i, c := range l.out {
		r := &l.replies[l.outAt+i]
		if r.Code == seam.None && l.repeats(c, err) {
			again = l.repeat(c, again)
			continue
		}
		results = l.read(c, r, &st, err, now, results)
	}
	l.out = l.out[:0]
	if len(again) > 0 {
		l.queue = append(again, l.queue...)
	}
	if err != nil {
		l.broke(err)
	}
	return results
}

// repeats says that a call goes out once more on the next connection: its own
// broke, as an idle one does when the server was restarted, and that is no
// reason to lose the vote. A node that was silent for the whole timeout is not
// asked again; who waited for it is gone by then.
func (l *lane) repeats(c *call, err error) bool {
	if err == nil || c.retried || isTimeout(err) {
		return false
	}
	return c.t == nil || c.op == seam.Release || c.op == opRecheck || !c.t.over.Load()
}

// repeat puts a call on the list of those that go out again. Whether a SET of
// an unknown outcome was executed does not matter: the next connection kills
// the one that carried it and deletes what it may have set, then sets anew.
func (l *lane) repeat(c *call, again []*call) []*call {
	c.retried = true
	if c.op == seam.Acquire {
		again = append(again, &call{op: seam.Release, node: c.node, t: c.t, undo: true})
	}
	return append(again, c)
}

// isTimeout tells silence from a connection that broke.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// read turns one reply into its answer, or sends the call round again.
func (l *lane) read(c *call, r *seam.Reply, st *standing, err error, now moment, results []result) []result {
	a := answer{code: r.Code, reply: r, quarantined: st.quarantined, foreign: st.foreign, left: st.left}
	if l.n.votes > 0 {
		a.server = l.runID
	}
	if r.Code == seam.Error {
		a.err = explain(r.Err)
		l.hangUp = l.hangUp || dropsConn(r.Err)
	}
	if r.Code == seam.None {
		a.err = err
		if err == nil {
			a.err = errNoReply
		}
	}
	switch c.op {
	case seam.Acquire:
		if r.Time > 0 {
			a.clock = l.n.told(r.Time, l.sentAt, now)
		}
		l.readAcquire(c, &a, st)
	case seam.Raise:
		if !st.ok && a.err == nil {
			a.code, a.err = seam.Error, st.err
		}
	case seam.Extend:
		if r.Code == seam.Stale {
			l.n.correct(r.Time, l.sentAt)
			if !c.retried && !c.t.over.Load() {
				c.retried = true
				l.queue = append(l.queue, c)
				return results
			}
		}
		if !st.ok && a.err == nil && (!st.quarantined || l.n.ward.mutant.has(mutantExtendBound)) {
			a.err = st.err // Extends hold on a quarantined node, and on no other that does not count.
			a.code = seam.Error
		}
	case seam.Release:
		switch {
		case r.Code == seam.None || r.Code == seam.Error:
			l.owe(c)
		case len(l.lost) > 0:
			l.owe(c) // an older connection may still write what this deleted
		default:
			l.paid(c.t.token)
		}
		if r.Code == seam.Gone && !c.undo && l.checkAt < 0 {
			c.op = opRecheck
			l.queue = append(l.queue, c)
			return results
		}
	case seam.Hello:
		if r.Code == seam.OK && l.n.helloError(r) == nil {
			l.n.learn(r.Facts, l.sentAt, now.instant)
			l.looked(r, now)
		}
	case opRecheck:
		a.code, a.err = seam.Gone, nil
		if r.Code == seam.None {
			a.code, a.err = seam.None, err
		}
	}
	return append(results, result{c, a})
}

var errNoReply = errors.New("no reply")

// readAcquire makes a vote of a reply. A SET whose vote does not count is
// undone by the lane itself, where it still may.
func (l *lane) readAcquire(c *call, a *answer, st *standing) {
	switch a.code {
	case seam.OK:
		a.vote = voteGranted
	case seam.Held:
		a.vote = voteHeld
	default:
		a.vote = l.n.failVote(a.err)
		if st.vote == voteForeign {
			a.vote, a.err = voteForeign, st.err
		}
		return
	}
	if st.ok {
		return
	}
	if a.vote == voteGranted && l.undoable(c.t) {
		// Ahead of extends that wait already: one of them may be answered MINE
		// and count, and a delete must not follow it.
		l.queue = append([]*call{{op: seam.Release, node: c.node, t: c.t, undo: true}}, l.queue...)
	}
	a.vote, a.err = st.vote, st.err
}

// undoable says that the lane may delete by itself what an acquire set. Not when
// an extend of the token went out behind it: other nodes made it a lease, and this
// one may have confirmed it since. Its owner's Release ends it here as well.
func (l *lane) undoable(t *tenure) bool {
	if t.over.Load() || l.n.ward.mutant.has(mutantLateUndo) {
		return true
	}
	for _, c := range l.out {
		if c.t == t && c.op == seam.Extend {
			return false
		}
	}
	return true
}

// greeted reads the connection check of a new connection.
func (l *lane) greeted(err error, now moment, results []result) []result {
	r := &l.replies[0]
	if err == nil {
		err = l.n.helloError(r)
	}
	if err == nil {
		l.n.learn(r.Facts, l.sentAt, now.instant)
		l.opened(r, now)
		l.looked(r, now)
		return results
	}
	l.hangUp = true
	for _, c := range l.down(err, now) {
		results = append(results, result{c, answer{vote: l.n.failVote(err), err: err}})
	}
	return results
}

// looked judges the seal that a connection check saw. It runs before the
// connection carries anything, so that a quarantine starts early.
func (l *lane) looked(r *seam.Reply, now moment) {
	n := l.n
	if r.Quarantined {
		n.quarFrom, n.quarLen = now.instant, r.QuarantineTTL
	} else {
		n.quarLen = 0
	}
	n.readSeal(r, now)
	n.ask()
}

// regreeted reads a connection check that was repeated for its age.
func (l *lane) regreeted(err error, now moment, results []result) []result {
	r := &l.replies[0]
	if err != nil {
		l.broke(err)
		return results
	}
	if err := l.n.helloError(r); err != nil {
		l.broke(err)
		l.hangUp = true
		for _, c := range l.down(err, now) {
			results = append(results, result{c, answer{vote: l.n.failVote(err), err: err}})
		}
		return results
	}
	l.checked = now.instant
	l.n.learn(r.Facts, l.sentAt, now.instant)
	l.looked(r, now)
	return results
}

// dropFirst removes the first k calls, keeping the array.
func dropFirst(q []*call, k int) []*call {
	n := copy(q, q[k:])
	clear(q[n:])
	return q[:n]
}
