package seam

import "time"

// Queue is the part of a call that is about the queue for a name: at QueueKey those
// who wait, by ticket, and at EndsKey until when each entry lives.
//
// An Acquire with a Ticket makes the entry of Who with it, or keeps the one that is
// there alive, for Lease; with no Ticket it wants no entry. It also raises the counter
// at TicketKey to the ticket. Only the first entry that lives gets the lock, and where
// there is none, anybody. A full queue takes no further entry: Full. Reply.Ticket is
// the larger of TIME and the counter and one; Reply.TTL, where it was Held, is what is
// left of the lock, or of the entry that stands first (-1 without TTL, -3 for another
// type).
//
// A Release with a WakeKey keeps a lock that is free then for the first in the queue:
// it becomes [Reserved] and Who, for as long as that entry lives, and "2" and Who is
// published on the channel that is Who up to the first dot. To an Acquire with a
// QueueKey such a lock is free. A Leave with a WakeKey does the same where the lock
// was kept for who leaves, or is free.
type Queue struct {
	QueueKey, EndsKey, TicketKey string

	Who       string
	Ticket    int64         // µs; 0 = no entry
	Lease     time.Duration // whole milliseconds
	TicketTTL time.Duration // how long the counter lives, whole milliseconds
	Places    int           // how many may queue
}

// Waiter is an entry of a queue.
type Waiter struct {
	Who    string
	Ticket int64
}

// Reserved begins the value of a lock that is nobody's, but kept for a waiter.
const Reserved = "reserved:"
