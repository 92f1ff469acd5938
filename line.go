package redlock

import "sync"

// lines are the callers of one Locker that wait for a name: they queue up
// locally, first come first served, so that one of them contends for the
// process. A name has a line only while somebody waits for it or asks for it.
type lines struct {
	mu sync.Mutex
	m  map[string]*line
}

// line is the queue for one name. Its step functions know no goroutine: a
// ticket that gets its turn is returned, and the shell wakes its owner.
type line struct {
	queue   []*ticket
	verdict error // the last round's of whoever contends, for those who never got to
}

// ticket is a place in a line.
type ticket struct {
	turn  chan struct{} // closed when it is first; nil while it need not wait
	nudge chan struct{} // a lease of this Locker on this name ended
}

// join appends a ticket and says whether it is first already.
func (l *line) join(t *ticket) (first bool) {
	l.queue = append(l.queue, t)
	return len(l.queue) == 1
}

// leave takes a ticket out and returns the one whose turn it is by that, if any.
func (l *line) leave(t *ticket) (next *ticket) {
	for i, q := range l.queue {
		if q != t {
			continue
		}
		l.queue = append(l.queue[:i], l.queue[i+1:]...)
		if i == 0 && len(l.queue) > 0 {
			return l.queue[0]
		}
		return nil
	}
	return nil
}

// enter takes a place in the line of a name.
func (ls *lines) enter(name string) (t *ticket, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil {
		l = &line{}
		ls.m[name] = l
	}
	t = &ticket{}
	if first = l.join(t); !first {
		t.turn = make(chan struct{})
	}
	return t, first
}

// exit gives the place up.
func (ls *lines) exit(name string, t *ticket) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if next := l.leave(t); next != nil {
		close(next.turn)
	}
	if len(l.queue) == 0 {
		delete(ls.m, name)
	}
}

// wait gives the first of a line something to be nudged by.
func (ls *lines) wait(t *ticket) <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if t.nudge == nil {
		t.nudge = make(chan struct{}, 1)
	}
	return t.nudge
}

// ended tells the first of a name's line that a lease of this process ended.
func (ls *lines) ended(name string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil || l.queue[0].nudge == nil {
		return
	}
	select {
	case l.queue[0].nudge <- struct{}{}:
	default:
	}
}

// judged keeps the last verdict of a name's line.
func (ls *lines) judged(name string, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		l.verdict = err
	}
}

// verdict is what whoever contends for the name heard last.
func (ls *lines) verdict(name string) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		return l.verdict
	}
	return nil
}
