package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

const (
	// queueLimit is how many bytes of one direction of a connection are kept.
	queueLimit = 256 << 10
	// readLimit is the most that is read at once.
	readLimit = 32 << 10
)

// ending is how a sender ended its direction.
type ending int

const (
	goesOn ending = iota
	fin
	rst
)

// chunk is what one read gave: bytes, or how they ended.
type chunk struct {
	data []byte
	end  ending
	at   time.Time // of arrival
}

// link is one direction of a pair: a reader fills its queue, a writer empties it.
type link struct {
	pair     *pair
	dir      direction
	src, dst *net.TCPConn
	wake     chan struct{} // the writer shall look again
	space    chan struct{} // the reader shall

	// Under p.mu.
	queue    []chunk
	size     int  // bytes in the queue
	lost     bool // a fault threw something away: nothing may follow it
	dead     bool // the receiver is gone
	finished bool // the end was delivered
	writing  bool // the head of the queue is being written,
	epoch    int  // since this Set
}

func newLink(c *pair, d direction, src, dst *net.TCPConn) *link {
	return &link{
		pair: c, dir: d, src: src, dst: dst,
		wake: make(chan struct{}, 1), space: make(chan struct{}, 1),
	}
}

// poke makes a goroutine look again, now or when it next would wait.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read fills the queue until the sender ends.
func (l *link) read() {
	buf := make([]byte, readLimit)
	for {
		room := l.room()
		if room == 0 {
			select {
			case <-l.space:
				continue
			case <-l.pair.ctx.Done():
				return
			}
		}
		n, err := l.src.Read(buf[:min(room, len(buf))])
		if n > 0 {
			l.push(chunk{data: bytes.Clone(buf[:n])})
		}
		switch {
		case errors.Is(err, io.EOF):
			l.push(chunk{end: fin})
			return
		case err != nil:
			l.push(chunk{end: rst})
			return
		}
	}
}

// room is how many bytes the queue may still take.
func (l *link) room() int {
	l.pair.p.mu.Lock()
	defer l.pair.p.mu.Unlock()
	return queueLimit - l.size
}

func (l *link) push(c chunk) {
	l.pair.p.mu.Lock()
	defer l.pair.p.mu.Unlock()
	l.pushLocked(c)
}

func (l *link) pushLocked(c chunk) {
	c.at = time.Now()
	l.queue = append(l.queue, c)
	l.size += len(c.data)
	l.pair.p.flow(l.dir).Waiting += int64(len(c.data))
	poke(l.wake)
}

// pop takes n bytes off the head of the queue, and the head when it is empty.
func (l *link) pop(n int) {
	head := &l.queue[0]
	head.data = head.data[n:]
	if len(head.data) == 0 {
		l.queue[0] = chunk{}
		l.queue = l.queue[1:]
	}
	l.size -= n
	l.pair.p.flow(l.dir).Waiting -= int64(n)
	poke(l.space)
}

// drop throws the head of the queue away.
func (l *link) drop() {
	n := len(l.queue[0].data)
	l.pair.p.flow(l.dir).Dropped += int64(n)
	l.pop(n)
}

// write empties the queue as the fault in force says, until the end is
// delivered or the pair ends.
func (l *link) write() {
	for l.pair.ctx.Err() == nil {
		data, end, wait := l.next()
		switch {
		case len(data) > 0:
			n, err := l.dst.Write(data)
			l.wrote(n, err)
		case end == fin:
			_ = l.dst.CloseWrite()
			l.finish()
			return
		case end == rst:
			l.pair.p.mu.Lock()
			l.pair.abort(false) // it is the sender that reset it
			l.pair.p.mu.Unlock()
			return
		default:
			l.sleep(wait)
		}
	}
}

// sleep waits until there is something to look at, at most that long; 0 is no bound.
func (l *link) sleep(most time.Duration) {
	var due <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-l.wake:
	case <-due:
	case <-l.pair.ctx.Done():
	}
}

// next is what is to be delivered now: bytes, or the end; or how long to wait
// for it, 0 for until somebody pokes.
func (l *link) next() (data []byte, end ending, wait time.Duration) {
	p := l.pair.p
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.fault
	for len(l.queue) > 0 && !l.pair.ended {
		head := l.queue[0]
		isReply := l.dir == down && head.end == goesOn
		blackhole := f.blackholes(l.dir)
		switch {
		case l.dead:
			l.drop()
			continue
		case blackhole || l.lost:
			l.lost = true
			if isReply && !blackhole {
				p.swallow(l)
			}
			l.drop()
			continue
		case f.holds(l.dir):
			return nil, goesOn, 0
		}
		if wait := f.delay(l.dir) - time.Since(head.at); wait > 0 {
			return nil, goesOn, wait
		}
		if isReply && p.swallow(l) {
			l.drop()
			continue
		}
		if head.end != goesOn {
			return nil, head.end, 0
		}
		n := len(head.data)
		if isReply {
			n = p.untilCut(l.pair, n)
		}
		l.writing, l.epoch = true, p.epoch
		_ = l.dst.SetWriteDeadline(time.Time{})
		return head.data[:n], goesOn, 0
	}
	return nil, goesOn, 0
}

// wrote notes what became of the bytes that next gave.
func (l *link) wrote(n int, err error) {
	p := l.pair.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.writing = false
	p.quiet.Broadcast()
	p.flow(l.dir).Passed += int64(n)
	l.pop(n)
	switch {
	case err == nil || errors.Is(err, os.ErrDeadlineExceeded): // a Set wants the rest decided anew
		if l.dir == down && l.epoch == p.epoch {
			p.cutAfter(l.pair, n)
		}
	case !l.pair.ended:
		l.receiverGone()
	}
}

// receiverGone sends the news the other way, where a fault may hold it up.
func (l *link) receiverGone() {
	l.dead = true
	back := l.pair.up
	if l.dir == up {
		back = l.pair.down
	}
	if back.finished {
		l.pair.abort(false)
		return
	}
	back.pushLocked(chunk{end: rst})
}

// finish notes that the end was delivered.
func (l *link) finish() {
	l.pair.p.mu.Lock()
	defer l.pair.p.mu.Unlock()
	l.finished = true
	l.pair.finish()
}
