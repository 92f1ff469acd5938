package redlock

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// ears are the connections by which a Locker is woken: at most one per node, open
// while somebody waits there and a little longer, shared by all names.
type ears struct {
	l       *Locker
	channel string // random: this Locker's
	mu      sync.Mutex
	at      []ear
	closed  bool
	wg      sync.WaitGroup
}

// ear is the connection to one node.
type ear struct {
	conn  seam.Ear
	ready chan struct{} // closed when the dial that is out has ended; nil when none is
	deaf  time.Time     // until then it is not tried again
	timer *time.Timer   // looks whether anybody still listens
}

const (
	channelPrefix = "redlock:wake:"
	earLinger     = 3 * time.Second // an ear that nobody needs any more is closed after once to twice that
	earPause      = time.Second     // before a node that could not be listened to is tried again
)

func (e *ears) init(l *Locker, n int) {
	e.l, e.channel, e.at = l, channelPrefix+newToken(), make([]ear, n)
}

// jitter is d, a tenth more or less.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// rank is the weight of a node for a name. The heaviest that is healthy is the
// name's designated node. It need not be the same for all processes: a release on
// each node wakes one who waits there.
func rank(node, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(name))
	x := h.Sum64() // whose last bytes hardly mix
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// designated is the node through which a name's waiters are woken: the first of
// its ranking that is connected, out of quarantine and can be listened to; -1 for
// none.
func (l *Locker) designated(name string) int {
	best, most := -1, uint64(0)
	for i, v := range l.voters {
		if r := rank(l.names[i], name); (best < 0 || r > most) && v.open.Load() && !v.quarantined() && l.ears.can(i) {
			best, most = i, r
		}
	}
	return best
}

// can says whether a node may be listened to.
func (e *ears) can(i int) bool {
	if _, ok := e.l.voters[i].dialer.(seam.Listener); !ok {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.closed && (e.at[i].deaf.IsZero() || time.Now().After(e.at[i].deaf))
}

// open makes sure that the node can wake us, within ctx.
func (e *ears) open(ctx context.Context, i int) bool {
	for {
		e.mu.Lock()
		a := &e.at[i]
		if e.closed || !a.deaf.IsZero() && time.Now().Before(a.deaf) {
			e.mu.Unlock()
			return false
		}
		if a.conn != nil {
			e.mu.Unlock()
			return true
		}
		if a.ready == nil {
			a.ready = make(chan struct{})
			e.wg.Go(func() { e.listen(i) })
		}
		ready := a.ready
		e.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			return false
		case <-e.l.closed:
			return false
		}
	}
}

// listen is the goroutine of one ear.
func (e *ears) listen(i int) {
	l := e.l
	conn, err := l.voters[i].dialer.(seam.Listener).Listen(e.channel, l.set.nodeTimeout)
	e.mu.Lock()
	a := &e.at[i]
	close(a.ready)
	a.ready = nil
	if err != nil || e.closed {
		a.deaf = time.Now().Add(earPause)
		e.mu.Unlock()
		if err == nil {
			conn.Close()
		}
		return
	}
	a.conn, a.deaf = conn, time.Time{}
	a.timer = time.AfterFunc(earLinger, func() { e.idle(i, conn, false) })
	e.mu.Unlock()
	for {
		m, err := conn.Next()
		if err != nil {
			break
		}
		if name, ok := strings.CutPrefix(m[min(1, len(m)):], l.set.prefix); ok && m != "" {
			l.lines.heard(name, i, m[0] == '1')
		}
	}
	e.drop(i, conn)
}

// drop closes an ear, and tells those who relied on it.
func (e *ears) drop(i int, conn seam.Ear) {
	e.mu.Lock()
	if a := &e.at[i]; a.conn == conn {
		a.conn = nil
		a.timer.Stop()
	}
	e.mu.Unlock()
	conn.Close()
	e.l.lines.deafened(i)
}

// idle closes an ear that nobody has needed twice in a row.
func (e *ears) idle(i int, conn seam.Ear, unused bool) {
	used := e.l.lines.listening(i)
	e.mu.Lock()
	a := &e.at[i]
	if a.conn != conn || e.closed {
		e.mu.Unlock()
		return
	}
	if used || !unused {
		a.timer = time.AfterFunc(earLinger, func() { e.idle(i, conn, !used) })
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	conn.Close() // listen sees it, and drops it
}

// lost is a node that does not vote any more: who waits there moves on at once,
// instead of relying on a connection that may be as dead without saying so.
func (e *ears) lost(i int) {
	e.mu.Lock()
	conn := e.at[i].conn
	e.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// close ends all ears and waits for them.
func (e *ears) close() {
	e.mu.Lock()
	e.closed = true
	for i := range e.at {
		if a := &e.at[i]; a.conn != nil {
			a.timer.Stop()
			a.conn.Close()
		}
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// enlist registers the process at a node, so that a release there wakes it.
func (w *waiting) enlist(ctx context.Context, node int) {
	l := w.l
	ctx, cancel := w.bound(ctx)
	defer cancel()
	ok := l.ears.open(ctx, node)
	if ok {
		var answers []answer
		var err error
		answers, err = l.ask(ctx, []int{node}, func(int) seam.Call {
			return seam.Call{
				Op: seam.Register, WakeKey: wakePrefix + l.set.prefix + w.name, Channel: l.ears.channel,
				TTL: min(listLife, l.ward.quarantine.Truncate(time.Millisecond)),
			}
		})
		ok = err == nil && answers[node].code == seam.OK
	}
	if ctx.Err() != nil || l.isClosed() {
		return // the wait is over
	}
	if !ok {
		l.ears.mu.Lock()
		l.ears.at[node].deaf = time.Now().Add(earPause)
		l.ears.mu.Unlock()
	}
	l.lines.with(w.name, func(li *line) {
		v := &li.vigil
		if old := v.node; old >= 0 && old != node {
			l.sendUnregister(w.name, old)
			v.node = -1
		}
		if ok {
			c := l.lines.view(w.name, li, w.ticket, w.attempts)
			v.enlisted(node, &c)
		}
	})
}

// sendUnregister takes the process off a node's list, without waiting for it.
func (l *Locker) sendUnregister(name string, node int) { l.sendWake(seam.Unregister, name, node) }

// sendPassOn lets a node wake the next, without waiting for it.
func (l *Locker) sendPassOn(name string, node int) { l.sendWake(seam.PassOn, name, node) }

func (l *Locker) sendWake(op seam.Op, name string, node int) {
	if node < 0 {
		return
	}
	key := wakePrefix + l.set.prefix + name
	own := &seam.Call{Op: op, Key: key[len(wakePrefix):], WakeKey: key, Channel: l.ears.channel}
	l.voters[node].submit(&call{op: op, node: int32(node), own: own}, quick(l.set.clock), false)
}
