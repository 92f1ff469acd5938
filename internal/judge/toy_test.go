package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// toy is a lock server with leases and its clients, in virtual time: messages
// take random times and get lost, clients wait, extend, release, forget to.
type toy struct {
	rnd     *rand.Rand
	now     time.Duration
	stop    time.Duration // clients begin nothing after that
	events  []toyEvent
	order   int
	locks   map[string]toyLock
	fence   uint64
	tokens  int
	history History
}

type toyLock struct {
	token string
	until time.Duration
}

type toyEvent struct {
	at    time.Duration
	order int
	do    func()
}

const (
	toyTTL   = time.Second
	toyDrift = 5 * time.Millisecond
	toyWait  = 200 * time.Millisecond // for an answer
)

func (t *toy) after(d time.Duration, do func()) {
	t.order++
	t.events = append(t.events, toyEvent{t.now + d, t.order, do})
}

// run plays with so many clients on so many names; the same seed is the same run.
func runToy(seed uint64, clients, names int, until time.Duration) History {
	t := &toy{rnd: rand.New(rand.NewPCG(seed, 1)), locks: make(map[string]toyLock), stop: until}
	for c := range clients {
		t.after(t.delay(), func() { t.acquire(fmt.Sprint("c", c), fmt.Sprint("n", t.rnd.IntN(names))) })
	}
	for len(t.events) > 0 {
		i := 0
		for k, e := range t.events {
			if c := cmp.Compare(e.at, t.events[i].at); c < 0 || c == 0 && e.order < t.events[i].order {
				i = k
			}
		}
		e := t.events[i]
		t.events = slices.Delete(t.events, i, i+1)
		t.now = e.at
		e.do()
	}
	return t.history
}

// delay is coarse, so that things happen in the same instant.
func (t *toy) delay() time.Duration { return time.Duration(t.rnd.IntN(8)) * 4 * time.Millisecond }

// ask has the server do something, and the client told; either may not happen.
// An answer that comes too late is none.
func (t *toy) ask(server func() bool, client func(Outcome)) {
	over := false
	finish := func(o Outcome) {
		if !over {
			over = true
			client(o)
		}
	}
	t.after(toyWait, func() { finish(Unknown) })
	if t.rnd.IntN(12) == 0 {
		return
	}
	late := time.Duration(0)
	if t.rnd.IntN(12) == 0 {
		late = time.Duration(t.rnd.Int64N(int64(2 * toyTTL)))
	}
	t.after(late+t.delay(), func() {
		o := Failed
		if server() {
			o = OK
		}
		if t.rnd.IntN(12) > 0 {
			t.after(t.delay(), func() { finish(o) })
		}
	})
}

func (t *toy) note(o Op) { o.End = t.now; t.history = append(t.history, o) }

// acquire tries once, or again and again until it is told how it went.
func (t *toy) acquire(client, name string) {
	if t.now > t.stop {
		return
	}
	t.tokens++
	o := Op{Client: client, Kind: Acquire, Name: name, Token: fmt.Sprint("t", t.tokens), Start: t.now}
	patient := t.rnd.IntN(2) == 0
	var try func()
	try = func() {
		asked := t.now
		t.ask(func() bool {
			if l := t.locks[name]; l.token != "" && t.now < l.until {
				return false
			}
			t.fence++
			o.Fence = t.fence
			t.locks[name] = toyLock{o.Token, t.now + toyTTL}
			return true
		}, func(out Outcome) {
			o.Outcome = out
			switch {
			case out == Failed && patient && t.now < t.stop:
				t.after(t.delay(), try)
				return
			case out == OK:
				o.Until = asked + toyTTL - toyDrift
				t.note(o)
				t.hold(o, o.Until)
				return
			}
			o.Fence = 0
			t.note(o)
			if out == Unknown {
				t.release(o)
				return
			}
			t.after(t.delay(), func() { t.acquire(client, name) })
		})
	}
	try()
}

// hold is the life of a client with a lease.
func (t *toy) hold(o Op, until time.Duration) {
	t.after(time.Duration(t.rnd.Int64N(int64(toyTTL/2))), func() {
		now := Op{Client: o.Client, Name: o.Name, Token: o.Token, Start: t.now, Outcome: OK}
		switch alive := t.now < until; {
		case alive && t.now > t.stop:
			// as if killed
		case !alive:
			now.Kind = Lost
			t.note(now)
			t.after(t.delay(), func() { t.acquire(o.Client, o.Name) })
		case t.rnd.IntN(3) == 0:
			now.Kind = Check
			t.note(now)
			t.hold(o, until)
		case t.rnd.IntN(2) == 0:
			t.extend(o, until)
		default:
			t.release(o)
		}
	})
}

func (t *toy) extend(o Op, until time.Duration) {
	x := Op{Client: o.Client, Kind: Extend, Name: o.Name, Token: o.Token, Start: t.now}
	t.ask(func() bool {
		l := t.locks[o.Name]
		if l.token != o.Token || t.now >= l.until {
			return false
		}
		t.locks[o.Name] = toyLock{o.Token, t.now + toyTTL}
		return true
	}, func(out Outcome) {
		if x.Outcome = out; out == OK {
			x.Until = x.Start + toyTTL - toyDrift
			until = max(until, x.Until)
		}
		t.note(x)
		t.hold(o, until)
	})
}

func (t *toy) release(o Op) {
	r := Op{Client: o.Client, Kind: Release, Name: o.Name, Token: o.Token, Start: t.now}
	t.ask(func() bool {
		l := t.locks[o.Name]
		if l.token != o.Token || t.now >= l.until {
			return false
		}
		delete(t.locks, o.Name)
		return true
	}, func(out Outcome) {
		r.Outcome = out
		t.note(r)
		t.after(t.delay(), func() { t.acquire(o.Client, o.Name) })
	})
}
