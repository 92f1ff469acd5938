package redlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
)

// The sentinels to branch on with errors.Is. The typed errors below match them
// and say more.
var (
	// ErrHeld: a majority of the nodes voted, and too few for us. Somebody
	// else has the name, or several callers split the votes. Returned by
	// Acquire, TryAcquire and Do.
	ErrHeld = errors.New("redlock: held by another")
	// ErrNoQuorum: fewer than a majority of the nodes voted. Never true of an
	// error that is ErrHeld (promise P1).
	ErrNoQuorum = errors.New("redlock: no quorum")
	// ErrLost: the lease ended before it was released.
	ErrLost = errors.New("redlock: lease lost")
	// ErrReleased: the lease was released before; nothing was sent.
	ErrReleased = errors.New("redlock: lease already released")
	// ErrConfig: an argument, a node or the deployment is set up in a way that
	// cannot be safe. Waiting does not mend it.
	ErrConfig = errors.New("redlock: configuration")
	// ErrQuarantined: a node forgot what it may have granted and abstains until
	// every lease of that time has ended. Found in the chain of an ErrNoQuorum.
	ErrQuarantined = errors.New("redlock: node is quarantined")
	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("redlock: locker closed")
)

// ConfigError is an argument or a deployment that breaks a rule. It Is
// [ErrConfig].
type ConfigError struct {
	What  string // what was wrong: "name", "TTL", "node redis1:6379", …
	Value string // what it was, without secrets
	Rule  string // the rule, and what to do
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: ")
	b.WriteString(e.What)
	if e.Value != "" {
		b.WriteString(" ")
		b.WriteString(e.Value)
	}
	b.WriteString(": ")
	b.WriteString(e.Rule)
	return b.String()
}

// Is reports whether target is [ErrConfig].
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// NodeError is what one node did wrong.
type NodeError struct {
	Node string // its address, without secrets
	Op   string // what it was asked: "acquire", "extend", "release", "connect", …
	Err  error
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// oneNodes hides a ConfigError of a single node from errors.Is: the call is
// ErrConfig only when no majority is possible without such nodes (promise P2).
// errors.As still finds it.
type oneNodes struct{ conf *ConfigError }

func (e oneNodes) Error() string { return e.conf.Error() }

// As is for errors.As.
func (e oneNodes) As(target any) bool {
	if p, ok := target.(**ConfigError); ok {
		*p = e.conf
		return true
	}
	return false
}

// ofNode makes a NodeError.
func ofNode(node, op string, err error) *NodeError {
	if conf, ok := errors.AsType[*ConfigError](err); ok {
		err = oneNodes{conf}
	}
	return &NodeError{Node: node, Op: op, Err: err}
}

// QuorumError is a round that did not win. It Is [ErrHeld] when a majority
// voted and [ErrNoQuorum] when not, never both.
type QuorumError struct {
	Name    string
	N, Need int // nodes, and how many of them make a majority
	// How the nodes answered; the four add up to N.
	Granted, Held, Failed, Pending int
	// RetryAfter is when trying again may first succeed: what is left of the
	// holder's lease, or of a quarantine; zero where it is not known.
	RetryAfter time.Duration
	// Nodes has a *NodeError for every node that did not vote, and for a key
	// that no holder would have left. Nil when there is none.
	Nodes *multierror.Error

	late bool // a majority was won, after the validity had ended
}

// held tells the two verdicts apart (promise P1).
func (e *QuorumError) held() bool { return !e.late && e.Granted+e.Held >= e.Need }

func (e *QuorumError) Error() string {
	var b strings.Builder
	if e.held() {
		fmt.Fprintf(&b, "redlock: %q is held by another", e.Name)
	} else {
		fmt.Fprintf(&b, "redlock: no quorum for %q", e.Name)
	}
	fmt.Fprintf(&b, " (%d of %d needed; %d granted, %d held, %d failed, %d silent)",
		e.Need, e.N, e.Granted, e.Held, e.Failed, e.Pending)
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; try again in %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Nodes != nil {
		for _, err := range e.Nodes.Errors {
			b.WriteString("; ")
			b.WriteString(err.Error())
		}
	}
	return b.String()
}

// Is reports whether target is the verdict: [ErrHeld] or [ErrNoQuorum].
func (e *QuorumError) Is(target error) bool {
	switch target {
	case ErrHeld:
		return e.held()
	case ErrNoQuorum:
		return !e.held()
	}
	return false
}

// Unwrap gives the nodes' own errors.
func (e *QuorumError) Unwrap() error {
	if e.Nodes == nil {
		return nil
	}
	return e.Nodes
}

// LostReason says why a lease ended before its release.
type LostReason int

// The reasons of a [LostError].
const (
	// LostExpired: the validity ended, and nothing was to renew it.
	LostExpired LostReason = iota + 1
	// LostTaken: a majority of the nodes that had confirmed the lease no
	// longer has it: deleted by hand, evicted, or forgotten.
	LostTaken
	// LostBroken: somebody freed it with Break.
	LostBroken
	// LostNoQuorum: it could not be renewed before the validity ended, because
	// no majority answered.
	LostNoQuorum
	// LostMaxHold: WithMaxHold was up.
	LostMaxHold
	// LostClosed: the Locker was closed.
	LostClosed
)

func (r LostReason) String() string {
	switch r {
	case LostExpired:
		return "expired"
	case LostTaken:
		return "taken"
	case LostBroken:
		return "broken"
	case LostNoQuorum:
		return "no quorum to renew it"
	case LostMaxHold:
		return "max hold"
	case LostClosed:
		return "locker closed"
	}
	return "unknown"
}

// LostError is a lease that ended before its release. Work under it may have
// overlapped with another holder's from Until on. It Is [ErrLost].
type LostError struct {
	Names  []string
	Reason LostReason
	Until  time.Time // the end of the last validity that was confirmed
	// Nodes has what the nodes said in the last round, as *NodeError. Nil when
	// there is nothing to say.
	Nodes *multierror.Error
}

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "redlock: lease of %q lost (%v); it was valid until %s",
		strings.Join(e.Names, ", "), e.Reason, e.Until.Format(time.RFC3339Nano))
	if e.Nodes != nil {
		for _, err := range e.Nodes.Errors {
			b.WriteString("; ")
			b.WriteString(err.Error())
		}
	}
	return b.String()
}

// Is reports whether target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap gives the nodes' own errors.
func (e *LostError) Unwrap() error {
	if e.Nodes == nil {
		return nil
	}
	return e.Nodes
}

// quarantineError is a node in quarantine, with the time it still abstains.
type quarantineError struct {
	left time.Duration
	why  string
}

func (e *quarantineError) Error() string {
	return fmt.Sprintf("quarantined for another %v: %s", e.left.Round(time.Millisecond), e.why)
}

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantined }

// waitError is a verdict that the end of the caller's context turned into a
// result: both match (promise P3).
type waitError struct {
	ctx     error // ctx.Err() or its cause
	cause   error
	verdict error // the last round's, nil when none was finished
}

func (e *waitError) Error() string {
	if e.verdict == nil {
		return "redlock: " + e.ctx.Error()
	}
	return fmt.Sprintf("redlock: gave up waiting: %v; last try: %v", e.ctx, e.verdict)
}

func (e *waitError) Unwrap() []error {
	errs := []error{e.ctx}
	if e.cause != nil && !errors.Is(e.ctx, e.cause) {
		errs = append(errs, e.cause)
	}
	if e.verdict != nil {
		errs = append(errs, e.verdict)
	}
	return errs
}

// What a node said that does not count, in the words of a NodeError.
var (
	errSilent         = errors.New("no answer within the node timeout")
	errLate           = errors.New("the majority came after the validity had ended; the nodes are too slow for this TTL")
	errReadded        = errors.New("the key was gone; it was set again and counts later")
	errReaddedEarlier = errors.New("the key had been set again and does not count yet")
	errOther          = errors.New("another holder has the key")
	errBroken         = errors.New("the lease was freed with Break")
	errStale          = errors.New("the extend reached the node too late, so it wrote nothing")
	errGone           = errors.New("the key was gone before the release")
)

// listErrors is how several nodes' errors read in one line.
func listErrors(errs []error) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

// errCancelled is a call that was not sent because its attempt or lease was
// over by then.
var errCancelled = errors.New("not sent: the attempt was over")
