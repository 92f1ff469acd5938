package redlock

// The keys of a queue, before that of the lock: who waits, until when each entry
// lives, and the highest ticket.
const (
	queuePrefix  = "redlock:q:"
	endsPrefix   = "redlock:e:"
	ticketPrefix = "redlock:t:"
)
