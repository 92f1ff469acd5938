package redlock

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// scheduler keeps every lease of a Locker: one heap, one timer, and at most one
// goroutine, which lives while something is due. Ten thousand leases need no
// ten thousand goroutines; what falls due together goes out together, in the
// lanes' pipelines.
type scheduler struct {
	clock Clock

	mu     sync.Mutex
	queue  dueQueue
	armed  time.Duration // monotonic; what the timer is set to
	stop   func() bool
	firing bool
	closed bool
	idle   sync.Cond // firing is over
	last   instant   // when it fired last
}

// glance is how often the clocks are compared while a lease stands: a machine
// that was suspended finds its leases ended at most this long after it resumed,
// although its timers stood still (hazard H23).
const glance = 500 * time.Millisecond

func newScheduler(c Clock) *scheduler {
	s := &scheduler{clock: c, armed: math.MaxInt64}
	s.idle.L = &s.mu
	return s
}

// dueQueue is a heap of holders by when they are due.
type dueQueue []*holder

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i+1, j+1
}

// Push and Pop are for container/heap.
func (q *dueQueue) Push(x any) {
	b := x.(*holder)
	b.slot = len(*q) + 1
	*q = append(*q, b)
}

// Pop is for container/heap.
func (q *dueQueue) Pop() any {
	old := *q
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	b.slot = 0
	return b
}

// set makes b due at the given monotonic time.
func (s *scheduler) set(b *holder, due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	b.due = due
	if b.slot == 0 {
		heap.Push(&s.queue, b)
	} else {
		heap.Fix(&s.queue, b.slot-1)
	}
	s.arm()
}

// drop forgets b.
func (s *scheduler) drop(b *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.slot != 0 {
		heap.Remove(&s.queue, b.slot-1)
	}
}

// arm sets the timer for what is due first. A timer that fires too early costs
// one look at the heap, so it is only ever moved forward.
func (s *scheduler) arm() {
	if s.firing || s.closed || len(s.queue) == 0 || s.armed <= s.queue[0].due {
		return
	}
	now := quick(s.clock).mono
	at := min(s.queue[0].due, now+glance)
	if s.armed <= at {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	s.armed = at
	s.stop = s.clock.AfterFunc(max(at-now, 0), s.fire)
}

// fire deals with everything that is due.
func (s *scheduler) fire() {
	s.mu.Lock()
	if s.firing || s.closed {
		s.mu.Unlock()
		return
	}
	s.firing = true
	s.armed = math.MaxInt64
	now := read(s.clock)
	// The other clocks went on without the monotonic one, on which things are
	// due: the machine slept, so everything is looked at.
	slept := s.last != (instant{}) && now.since(s.last) > now.mono-s.last.mono+margin(0)
	s.last = now.instant
	var due []*holder
	if slept {
		due = append(due, s.queue...)
	}
	for len(s.queue) > 0 && s.queue[0].due <= now.mono {
		b := heap.Pop(&s.queue).(*holder)
		if !slept {
			due = append(due, b)
		}
	}
	s.mu.Unlock()
	for _, b := range due {
		if at, ok := b.tick(read(s.clock)); ok {
			s.set(b, at)
		}
	}
	s.mu.Lock()
	s.firing = false
	s.arm()
	s.idle.Broadcast()
	s.mu.Unlock()
}

// close forgets all leases, and returns them, once no tick runs any more.
func (s *scheduler) close() []*holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.stop != nil {
		s.stop()
	}
	for s.firing {
		s.idle.Wait()
	}
	left := s.queue
	s.queue = nil
	for _, b := range left {
		b.slot = 0
	}
	return left
}
