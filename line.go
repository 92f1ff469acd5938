package redlock

import (
	"sync"
	"time"
)

// lines are the callers of one Locker that wait for a name: they queue up
// locally, first come first served, so that one of them contends for the
// process, and who holds a name here hands it to the first. A name has a line
// only while somebody waits for it or asks for it.
//
// The guard may be taken under a holder's; a voter's, and that of the ears, may be
// taken under it; never the other way round.
type lines struct {
	l    *Locker
	mu   sync.Mutex
	m    map[string]*line
	held map[string]*holder       // who holds a name in this process
	back map[string]time.Duration // until when it leaves a name to whom it woke
}

// line is the queue for one name.
type line struct {
	queue   []*ticket
	verdict error // the last round's of whoever contends, for those who never got to
	firm    bool  // of that round: see view
	vigil   vigil
}

// ticket is a place in a line.
type ticket struct {
	o       *lockSettings
	waiting bool          // its owner waits for sig: a lease may be handed to it
	sig     chan struct{} // something happened; nil until its owner waits
	heir    *holder       // the lease that was handed to it
}

// poke wakes the owner of a ticket, if it waits.
func (t *ticket) poke() {
	select {
	case t.sig <- struct{}{}:
	default: // it has not looked at the last one yet, or has no channel
	}
}

func (ls *lines) init(l *Locker) {
	ls.l, ls.m, ls.held, ls.back = l, make(map[string]*line), make(map[string]*holder), make(map[string]time.Duration)
}

func (ls *lines) now() time.Duration { return quick(ls.l.set.clock).mono }

// enter takes a place in the line of a name.
func (ls *lines) enter(name string, o *lockSettings) *ticket {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	li := ls.m[name]
	if li == nil {
		li = &line{vigil: newVigil(ls.l.set.mutant)}
		ls.m[name] = li
		if len(ls.back) > 0 {
			if until, ok := ls.back[name]; ok {
				delete(ls.back, name)
				if ls.now() < until {
					li.vigil.freed(true)
				}
			}
		}
	}
	t := &ticket{o: o, waiting: len(li.queue) > 0}
	li.queue = append(li.queue, t)
	return t
}

// exit gives the place up. A lease that was handed over at that very moment is
// returned: whoever gets it has to see to it.
func (ls *lines) exit(name string, t *ticket) (heir *holder) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	li := ls.m[name]
	heir, t.heir = t.heir, nil
	for i, q := range li.queue {
		if q == t {
			li.queue = append(li.queue[:i], li.queue[i+1:]...)
			break
		}
	}
	if len(li.queue) > 0 {
		li.queue[0].poke()
		return heir
	}
	registered, pass := li.vigil.over()
	ls.l.sendUnregister(name, registered)
	if ls.held[name] == nil { // else the release wakes the next
		ls.l.sendPassOn(name, pass)
	}
	delete(ls.m, name)
	return heir
}

// step says what the owner of a ticket does next.
func (ls *lines) step(name string, t *ticket, attempts int) (m move, heir *holder) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if t.heir != nil {
		heir, t.heir, t.waiting = t.heir, nil, false
		return move{}, heir
	}
	li := ls.m[name]
	m = move{kind: moveRest, wait: -1}
	if li.queue[0] == t {
		c := ls.view(name, li, t, attempts)
		m = li.vigil.next(&c)
	}
	if t.waiting = m.kind == moveRest; t.waiting && t.sig == nil {
		t.sig = make(chan struct{}, 1)
	}
	return m, nil
}

// view is what a line's vigil sees.
func (ls *lines) view(name string, li *line, t *ticket, attempts int) view {
	c := view{own: ls.held[name] != nil, designated: -1, firm: li.firm}
	if v := &li.vigil; v.stage != stageTry || v.rounds > 0 || v.mutant.has(mutantGatedPolls) || c.own { // not on the way to a free name
		c.now, c.designated, c.poll = ls.now(), ls.l.designated(name), jitter(pollEvery)
		c.down = v.node >= 0 && !ls.l.voters[v.node].open.Load()
		if attempts > 0 {
			c.backoff = t.o.backoff(attempts)
		}
		if q, ok := asQuorum(li.verdict); ok {
			c.retryAfter = q.RetryAfter
		}
	}
	return c
}

// with runs a step of a line's vigil; nothing happens when the line is gone.
func (ls *lines) with(name string, f func(li *line)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if li := ls.m[name]; li != nil {
		f(li)
	}
}

// lost tells of a round that did not win. verdict is nil for one that ended at the
// gate. It says which node has a wake-up to pass on, -1 for none.
func (ls *lines) lost(name string, t *ticket, attempts int, verdict error, firm bool) (pass int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	li, pass := ls.m[name], -1
	if verdict != nil {
		li.verdict, li.firm = verdict, firm
	}
	li.vigil.rounds = max(li.vigil.rounds, 1)
	c := ls.view(name, li, t, attempts)
	if li.vigil.lost(&c) {
		pass = li.vigil.gate
	}
	return pass
}

// won makes b the one who holds a name here.
func (ls *lines) won(b *holder) {
	name := b.h.name
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.held[name] = b
	if li := ls.m[name]; li != nil {
		ls.l.sendUnregister(name, li.vigil.won())
	}
}

// ended tells the first of a name's line that b, a lease of this process, ended.
// With back it leaves the name to other processes for a moment.
func (ls *lines) ended(b *holder, back bool) {
	for _, name := range b.h.all {
		ls.with(name, func(li *line) {
			if len(li.queue) > 0 {
				li.vigil.freed(back || li.vigil.back)
				li.queue[0].poke()
			}
		})
	}
	name := b.h.name
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held[name] == b {
		delete(ls.held, name)
	}
	li := ls.m[name]
	if li == nil || len(li.queue) == 0 {
		return
	}
	li.vigil.freed(back || li.vigil.back)
	li.queue[0].poke()
}

// woke tells that a release woke another process.
func (ls *lines) woke(name string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if li := ls.m[name]; li != nil && len(li.queue) > 0 {
		if ls.held[name] != nil {
			li.vigil.back = true // taken up when the release is over
		}
		return
	}
	now := ls.now()
	if len(ls.back) >= maxBacks {
		for k, until := range ls.back {
			if until <= now {
				delete(ls.back, k)
			}
		}
		if len(ls.back) >= maxBacks {
			return
		}
	}
	ls.back[name] = now + standBack
}

// maxBacks bounds the names that a process leaves to others.
const maxBacks = 256

// heard is a wake-up for a name. What nobody here waits for goes to the next.
func (ls *lines) heard(name string, node int, spent bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	li := ls.m[name]
	switch {
	case li != nil && len(li.queue) > 0:
		li.vigil.woken(node, spent)
		li.queue[0].poke()
	case ls.held[name] == nil && !ls.l.set.mutant.has(mutantNoPassOn):
		ls.l.sendPassOn(name, node)
	}
}

// deafened tells all who are registered at a node that it will not wake them.
func (ls *lines) deafened(node int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, li := range ls.m {
		if li.vigil.deafened(node) && len(li.queue) > 0 {
			li.queue[0].poke()
		}
	}
}

// listening says whether anybody is registered at a node.
func (ls *lines) listening(node int) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, li := range ls.m {
		if li.vigil.node == node || li.vigil.stage == stageEnlist {
			return true
		}
	}
	return false
}

// verdict is what whoever contends for the name heard last. While this process
// holds it, that is it: nobody asks.
func (ls *lines) verdict(name string) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if b := ls.held[name]; b != nil {
		n := len(ls.l.voters)
		return &QuorumError{Name: name, N: n, Need: majority(n), Held: n}
	}
	if li := ls.m[name]; li != nil {
		return li.verdict
	}
	return nil
}

// heirOf picks who gets the lease that b gives up: the first in line, if it
// waits and asked for nothing else. From here on that ticket owns it.
func (ls *lines) heirOf(b *holder) *ticket {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	li := ls.m[b.h.name]
	if li == nil || len(li.queue) == 0 || ls.held[b.h.name] != b {
		return nil
	}
	t := li.queue[0]
	if b.broken || !t.waiting || t.heir != nil || !alike(t.o, &b.opts) {
		return nil
	}
	t.heir = b
	return t
}
