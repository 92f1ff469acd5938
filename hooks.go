package redlock

import (
	"context"
	"time"
)

// Hooks are called as things happen, for metrics and traces. Every field may be
// nil. AcquireStart, AcquireDone and Released run in the caller's goroutine;
// the others run one after the other in a goroutine of the Locker's own, so a
// slow one delays no renewal. That goroutine's queue holds 1 024 events; beyond
// it events are dropped, and Dropped of the next Lost or Renewed event says how
// many. A panic in a hook is recovered and logged.
type Hooks struct {
	// AcquireStart is called when Acquire, TryAcquire or Do begins. The context
	// that it returns (nil for the one it was given) is handed to AcquireDone.
	AcquireStart func(ctx context.Context, name string) context.Context
	// AcquireDone is called when it ends, either way.
	AcquireDone func(ctx context.Context, e AcquireEvent)
	// Renewed is called after every renewal round that was decided.
	Renewed func(e RenewEvent)
	// Lost is called once for every lease that ended before its release.
	Lost func(e LostEvent)
	// Released is called when Release has its result.
	Released func(ctx context.Context, e ReleaseEvent)
	// NodeDown is called when a node stops answering, or refuses.
	NodeDown func(e NodeEvent)
	// NodeUp is called when it is back.
	NodeUp func(e NodeEvent)
}

// AcquireEvent is the end of an Acquire, TryAcquire or Do.
type AcquireEvent struct {
	Name     string
	Attempts int           // rounds
	Waited   time.Duration // from the call to its result
	Err      error         // nil when acquired
}

// RenewEvent is a renewal round.
type RenewEvent struct {
	Names   []string
	Took    time.Duration
	Until   time.Time // the validity now
	Err     error     // nil when renewed; else a *QuorumError
	Dropped int       // events lost before this one because the queue was full
}

// LostEvent is a lease that ended before its release.
type LostEvent struct {
	Names   []string
	Err     *LostError
	Held    time.Duration
	Dropped int // events lost before this one because the queue was full
}

// ReleaseEvent is the result of a Release.
type ReleaseEvent struct {
	Names []string
	Held  time.Duration
	Left  time.Duration // validity that was left; below zero when it had ended
	Err   error
}

// NodeEvent is a node that went down or came back.
type NodeEvent struct {
	Node string
	Err  error // NodeDown only
}
