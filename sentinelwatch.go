package redlock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// watch is a Sentinel group at work for one Locker: it knows the master, and
// drops the connections to one that was replaced.
type watch struct {
	g       *group
	v       *voter
	mutant  mutant
	timeout time.Duration

	begin sync.Once
	wg    sync.WaitGroup // of the background, and of questions that are out
	done  chan struct{}  // closed with the Locker
	kick  chan struct{}  // a sentinel told of a switch

	look chan struct{} // one look-up at a time; it guards:
	at   time.Time     // when the last one ended…
	err  error         // …in vain
	now  named         // the master, as a majority named it last
	seen []string      // sentinels that were named

	mu     sync.Mutex
	ears   map[string]seam.Ear // nil while it connects
	closed bool
}

// sentinelEvery is how often the sentinels are asked while the group is used. An
// old master is left after this time, long before its successor may grant.
const sentinelEvery = time.Second

// minReplicas is what makes a master stop that is cut off (hazard H12).
const minReplicas = "set min-replicas-to-write to the number of its replicas and min-replicas-max-lag to at most 10, on every server of the group"

// watchOver puts a watch between a voter and its Sentinel group.
func (l *Locker) watchOver(v *voter) {
	g, ok := v.dialer.(*group)
	if !ok {
		return
	}
	w := &watch{
		g: g, v: v, mutant: l.set.mutant, timeout: l.set.nodeTimeout, done: make(chan struct{}),
		kick: make(chan struct{}, 1), look: make(chan struct{}, 1), ears: make(map[string]seam.Ear),
	}
	v.dialer, v.n.group = w, true
	l.groups = append(l.groups, w)
}

// Node names the group.
func (w *watch) Node() string { return w.g.Node() }

// DB is the database of the master.
func (w *watch) DB() int { return w.g.db }

// Lag is how long a master that was replaced may go on granting.
func (w *watch) Lag() time.Duration { return deposedFor }

// Dial asks for the master and connects to it.
func (w *watch) Dial(timeout time.Duration) (seam.Conn, error) {
	m, err := w.master(timeout, viewFresh)
	if err != nil {
		return nil, err
	}
	w.begin.Do(func() { w.wg.Go(w.work) })
	conn, err := w.g.wire.dial(m.addr, timeout)
	if err != nil {
		return nil, fmt.Errorf("master %s: %w", m.addr, err)
	}
	return conn, nil
}

// Listen subscribes to a channel of the master.
func (w *watch) Listen(channel string, timeout time.Duration) (seam.Ear, error) {
	m, err := w.master(timeout, viewFresh)
	if err != nil {
		return nil, err
	}
	return w.g.wire.listenMaster(m.addr, channel, timeout)
}

// master is who a majority of the sentinels names. A look-up that ended less than
// fresh ago serves.
func (w *watch) master(timeout, fresh time.Duration) (named, error) {
	select {
	case w.look <- struct{}{}:
	case <-w.done:
		return named{}, ErrClosed
	}
	defer func() { <-w.look }()
	if !w.at.IsZero() && time.Since(w.at) < fresh {
		return w.now, w.err
	}
	m, err := w.lookUp(timeout)
	if err == nil && m.epoch < w.now.epoch && !w.mutant.has(mutantEpochBack) {
		err = fmt.Errorf("the sentinels of %q name %s under config epoch %d, after %s under %d: they have forgotten a failover; "+
			"the vote is back when they know of it again, or with a restart of this process if they are right",
			w.g.name, m.addr, m.epoch, w.now.addr, w.now.epoch)
	}
	w.at, w.err = time.Now(), err
	if err != nil {
		return named{}, err
	}
	was := w.now
	w.now = m
	if was.addr != "" && was.addr != m.addr && !w.mutant.has(mutantKeptLanes) {
		w.v.drop()
	}
	return m, nil
}

// sentinelAnswer is what one sentinel answered.
type sentinelAnswer struct {
	addr string
	said sentinelSaid
	err  error
}

// lookUp asks all sentinels at once, those that they name too, until a majority
// of them names one master. One alone may be on the wrong side of a cut.
func (w *watch) lookUp(timeout time.Duration) (named, error) {
	view := newSentinelView(w.g.name, len(w.g.addrs), w.mutant.has(mutantFirstSentinel))
	answers := make(chan sentinelAnswer, 3*maxSentinels)
	asked := make(map[string]bool)
	ask := func(addrs []string) {
		for _, addr := range addrs {
			if asked[addr] {
				continue
			}
			asked[addr] = true
			w.wg.Go(func() {
				a := sentinelAnswer{addr: addr}
				a.said, a.err = w.g.wire.ask(addr, w.g.name, timeout)
				answers <- a
			})
		}
	}
	ask(w.g.addrs)
	ask(w.seen)
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for heard := 0; heard < len(asked); {
		select {
		case a := <-answers:
			heard++
			if a.err != nil {
				view.fail(a.addr, a.err, slices.Contains(w.g.addrs, a.addr))
			} else {
				view.learn(a.addr, a.said)
			}
			if m, ok := view.master(); ok {
				if len(view.addrs) > 0 {
					w.seen = view.addrs
				}
				return m, nil
			}
			ask(view.addrs)
		case <-limit.C:
			return named{}, view.unsettled()
		}
	}
	return named{}, view.unsettled()
}

// work asks the sentinels in the background while a connection is open. When none
// is, those who dial ask.
func (w *watch) work() {
	tick := time.NewTicker(sentinelEvery)
	defer tick.Stop()
	for {
		w.listen()
		select {
		case <-tick.C:
		case <-w.kick:
		case <-w.done:
			return
		}
		if w.v.open.Load() {
			_, _ = w.master(w.timeout, 0)
		}
	}
}

// listen hears every sentinel that it does not hear yet.
func (w *watch) listen() {
	w.look <- struct{}{}
	addrs := append(slices.Clone(w.g.addrs), w.seen...)
	<-w.look
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, addr := range addrs {
		if _, ok := w.ears[addr]; !ok && !w.closed {
			w.ears[addr] = nil
			w.wg.Go(func() { w.hear(addr) })
		}
	}
}

// hear waits for one sentinel's news of a switch. It is a hint and no more: whom
// to follow, a majority says.
func (w *watch) hear(addr string) {
	ear, err := w.g.wire.listen(addr, w.timeout)
	w.mu.Lock()
	if err != nil || w.closed {
		delete(w.ears, addr) // tried again with the next tick
		w.mu.Unlock()
		if err == nil {
			ear.Close()
		}
		return
	}
	w.ears[addr] = ear
	w.mu.Unlock()
	for {
		text, err := ear.Next()
		if err != nil {
			break
		}
		if strings.HasPrefix(text, w.g.name+" ") {
			select {
			case w.kick <- struct{}{}:
			default:
			}
		}
	}
	ear.Close()
	w.mu.Lock()
	delete(w.ears, addr)
	w.mu.Unlock()
}

// close ends what goes on in the background.
func (w *watch) close() {
	close(w.done)
	w.mu.Lock()
	w.closed = true
	for _, ear := range w.ears {
		if ear != nil {
			ear.Close()
		}
	}
	w.mu.Unlock()
}
