package faultproxy

import "time"

// Fault is what goes wrong; the zero Fault is nothing. Up is from the client to
// the server, Down is the way of the replies. What becomes of bytes is decided
// when they would be delivered, so that a new Fault also covers those that the
// last one kept.
type Fault struct {
	// RefuseNew closes the listener, so that the kernel answers a new connection
	// with "connection refused", as where no server runs. The port stays taken.
	// Present connections go on.
	RefuseNew bool

	// BlackholeUp and BlackholeDown throw away what comes, a FIN or RST
	// included, and the connection stays open. Bytes never follow a gap, which
	// TCP would not let happen either: a connection that lost some gets none in
	// that direction any more, and the first Set that would let them pass again
	// resets it. Blackhole goes before Hold and Delay.
	BlackholeUp, BlackholeDown bool

	// HoldUp and HoldDown keep what comes and deliver it when the fault ends, as
	// TCP does after a partition that was short enough.
	HoldUp, HoldDown bool

	// DelayUp and DelayDown deliver that long after arrival, in order.
	DelayUp, DelayDown time.Duration

	// CutReplyAfter resets a connection after that many bytes of reply; 0 is
	// never. It hits once: the first connection to which reply bytes come. As
	// with every RST, what the client's kernel had not taken by then is lost too.
	CutReplyAfter int

	// DropReplies throws away the next that many chunks of reply, of whichever
	// connections; a chunk is what one read from the server gave. A connection
	// that lost one gets no reply any more, as with BlackholeDown: chunks that
	// come for it later count too, and the next Set resets it.
	DropReplies int

	// DropThenReset resets the connections that lost a reply, once the last of
	// DropReplies is thrown away.
	DropThenReset bool
}

// Stats are the counters of a Proxy.
type Stats struct {
	Accepted int // connections accepted so far
	Open     int // those of them that have not ended on both sides
	Resets   int // cut by us: by a fault, Reset, or as the server was not to be reached
	Up, Down Flow
}

// Flow counts the bytes of one direction.
type Flow struct {
	Passed  int64 // delivered so far
	Dropped int64 // thrown away so far
	Waiting int64 // held, delayed or not taken by the receiver, now
}

// direction is the way of a link.
type direction int

const (
	up direction = iota
	down
)

// blackholes reports whether bytes of that direction are thrown away.
func (f *Fault) blackholes(d direction) bool {
	return d == up && f.BlackholeUp || d == down && f.BlackholeDown
}

// holds reports whether bytes of that direction are kept.
func (f *Fault) holds(d direction) bool { return d == up && f.HoldUp || d == down && f.HoldDown }

// delay is how late bytes of that direction are.
func (f *Fault) delay(d direction) time.Duration {
	if d == up {
		return f.DelayUp
	}
	return f.DelayDown
}
