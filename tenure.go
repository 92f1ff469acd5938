package redlock

import (
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// tenure is one token's life on the nodes: from the first SET that bears it to
// the last delete. Every attempt has a tenure of its own, so a late release of
// an earlier attempt can never free a later one (hazard H2).
type tenure struct {
	name    string
	key     string // prefix + name
	spot    string // what decides the bucket of a Cluster: the key, or WithBucket's
	token   string
	label   string
	hold    string // labelKey, "" without label
	wake    string // wakeKey, "" where a release wakes nobody
	minHold time.Duration
	all     []string     // of AcquireAll, the names; nil for one
	also    []seam.Names // of AcquireAll, the names after the first
	fence   *fencing     // nil without WithFencing

	// over: no acquire and no extend of this token may be sent any more
	// (promise P8). The lanes look at it when they build a batch, which is the
	// last moment before the bytes go out.
	over atomic.Bool

	// lane has, per node, one more than the lane that the token's calls take
	// there; 0 until the first one. Entry i is guarded by node i.
	lane []uint8
	// sent has, per node, whether an acquire or extend ever went out. Entry i
	// is guarded by node i.
	sent []bool
}

// keys of the things beside the lock key (design section 5).
func labelKey(key string) string { return "redlock:l:" + key }
func markKey(key string) string  { return "redlock:b:" + key }

// wakePrefix begins the key of those who wait for a name.
const wakePrefix = "redlock:w:"

// opRecheck is a release that was answered Gone and waits for a closing check,
// to tell a node that forgot from one that gave the lock to somebody else. It
// exists only inside a lane.
const opRecheck seam.Op = 255

// call is one request on its way through a lane. A call of a token leaves op,
// ttl and the like to the lane, which fills in the rest from the tenure when it
// builds the batch; any other call brings its own.
type call struct {
	op   seam.Op
	node int32
	seq  uint32 // the caller's round, handed back with the answer
	t    *tenure
	ttl  time.Duration // TTL; for a Release what to keep
	own  *seam.Call    // calls without a tenure
	sink sink          // nil: nobody wants the answer

	retried bool // it had its second chance: a connection that broke, an extend that was Stale
	patient bool // the caller has nothing better to ask: wait for a probe instead of failing fast
	undo    bool // a release of an attempt that failed: needed only where something was sent
}

// sink gets the answers to calls. It must not block. a and its reply are valid
// during the call only.
type sink interface {
	answered(c *call, a *answer)
}

// answer is what became of a call.
type answer struct {
	code        seam.Code     // None: unknown, or never sent
	vote        vote          // acquires only
	err         error         // why it failed, or why it does not count
	left        time.Duration // how long the node is quarantined yet, or zero
	quarantined bool          // the node is in quarantine
	foreign     bool          // the node has a foreign seal: nothing it says counts
	clock       int64         // its TIME − our monotonic clock, µs; of acquires with a fence
	server      string        // the run_id of a Cluster's master; "" for a server of its own
	reply       *seam.Reply   // what the node said; nil when it said nothing
}
