// Package seam is the one narrow place through which the lock reaches a
// server: run these calls, in order, on your connection; here are the replies.
//
// Behind it stand go-redis (package redlock, master.go) and the in-memory node
// (package memnode). A differential test holds the two equal, which is what
// makes a simulation over the in-memory node worth anything.
//
// A [Call] says what is meant, not which Redis command does it, so the
// in-memory node needs no parser and no Lua, and the lane that builds a batch
// can reason about it. The scripts that give the calls their meaning on a real
// server are in the folder scripts of the root package.
package seam

import "time"

// Op is what a node is asked to do.
type Op uint8

// The calls. "The lock" is the string at Call.Key.
const (
	// Acquire sets the lock to Token for TTL if nothing stands at Key
	// (SET key token NX PX ttl): OK or Held. With a LabelKey the label is
	// set beside it, atomically and for the same TTL (acquire.lua). With a
	// FenceKey (acquire_fenced.lua) the counter there becomes the largest of the
	// node's TIME, what it was plus Block, and Fence if that is at most a second
	// ahead of TIME, for FenceTTL; Reply.Fence is that, and Reply.Time the TIME,
	// also when Held. A counter that is no number, or near 2^53, is an Error. With
	// a QueueKey callers queue: see queue.go.
	Acquire Op = iota + 1
	// Extend holds on to a lock (extend.lua): later than NotAfter → Stale,
	// nothing written, Reply.Time says the node's TIME; ours → PEXPIRE to
	// the larger of what it has and TTL → Mine; absent and Token marked by
	// Break → Broken, nothing written; absent → set again for TTL → Readded;
	// anything else → Other. With a LabelKey the label is refreshed, or set
	// again, beside it.
	Extend
	// Release deletes the lock if its value is Token (release.lua):
	// Deleted, or Gone when the key is absent or another's. With a LabelKey
	// the label goes too. With KeepFor > 0 the delete becomes a
	// compare-and-PEXPIRE to that time (never lengthening), and still
	// answers Deleted. With a WakeKey, and unless the lock is kept, it then
	// wakes the waiter that is registered there for longest, as PassOn does:
	// Reply.Woken says whether there was one. With a QueueKey those who queue
	// come first: see queue.go.
	Release
	// Probe tells what stands at Key: Reply.Type as TYPE says it ("none",
	// "string", "list", …) and Reply.TTL as PTTL does: -1 (one nanosecond
	// below zero) for a key without TTL, -2 for no key. Code OK.
	Probe
	// Inspect reads the holder (inspect.lua): Reply.Type, TTL as in Probe,
	// Value the token, Label the label. A key of another type has no Value.
	// With a QueueKey, Reply.Queue is who queues and lives, the first thousand.
	// Code OK.
	Inspect
	// Break deletes the lock if its value is Token, and in every case leaves
	// a mark at MarkKey that names Token for TTL (break.lua): Deleted; Gone
	// when the key is absent; Other when it is another's, Value naming it.
	Break
	// Check is the closing check of a batch: MGET SealKey QuarantineKey and
	// INFO replication. Code OK; Reply.Seal, Quarantined, Master, Replid.
	Check
	// Hello is the connection check, the first call on every connection and
	// again once a minute: CLIENT ID, CLIENT INFO, TIME, INFO server, memory,
	// replication and persistence, SCRIPT LOAD of the scripts, and one
	// evaluation of seal.lua that writes nothing. Code OK with Reply.Facts,
	// and Seal, Quarantined, QuarantineTTL, Master, Replid as in Seal.
	Hello
	// Seal writes the seal and starts the quarantine (seal.lua). If what
	// stands at SealKey equals Expect ("" for nothing) and Value is not
	// empty: SET SealKey Value, and with TTL > 0 also SET QuarantineKey "1"
	// PX TTL; Code OK. Otherwise it writes nothing: Code Other. With Force
	// it does not compare. Always: Reply.Seal is what stands at SealKey
	// afterwards, QuarantineTTL what is left of the quarantine (0 for none)
	// and Quarantined whether there is one.
	Seal
	// Kill ends a connection of ours that is lost but may still hold unread
	// calls in the server's buffer: CLIENT KILL ID ClientID ADDR Addr. Code
	// OK whether or not it was still there; Error where it is refused.
	Kill
	// Holds asks whether any string key that begins with Key exists, other
	// than those that begin with "redlock:" (SCAN … TYPE string): Code OK,
	// Reply.Value one such key, or "". Used by Init only.
	Holds
	// Seals lists the keys that begin with "redlock:seal:" (SCAN): Code OK,
	// Reply.Values. Used by Check only.
	Seals
	// Register puts Channel among those who wait at WakeKey, behind the
	// others unless it is there already, and lets the list live for TTL
	// (enlist.lua): OK. Full, with 10 000, it takes nobody: Other.
	Register
	// Unregister takes Channel off the list at WakeKey (ZREM): OK.
	Unregister
	// PassOn wakes the one at WakeKey who waits for longest and is not Channel
	// itself (passon.lua): takes it off and publishes "1" and Key on its
	// channel; who does not listen any more is skipped for the next. OK;
	// Reply.Woken says whether anybody was. (What a Release publishes begins
	// with "0".)
	PassOn
	// Raise lifts the counter at FenceKey to at least Fence, for FenceTTL, if the
	// lock is Token (raise.lua): Mine when it stands; Other when the lock is not
	// Token; Ahead, and nothing written, when Fence is more than Limit ahead of
	// the node's TIME and does not stand there already.
	Raise
	// Leave takes Who out of the queue (leave.lua): OK. See queue.go.
	Leave

	opsEnd // one more than the last
)

// Ops is how many ops there are, the zero one with them.
const Ops = int(opsEnd)

// String names the op as it stands in a NodeError.
func (o Op) String() string {
	switch o {
	case Acquire:
		return "acquire"
	case Extend:
		return "extend"
	case Release:
		return "release"
	case Probe:
		return "probe"
	case Inspect:
		return "inspect"
	case Break:
		return "break"
	case Check:
		return "check"
	case Hello:
		return "connect"
	case Seal:
		return "seal"
	case Kill:
		return "kill"
	case Holds, Seals:
		return "scan"
	case Register, Unregister:
		return "register"
	case PassOn:
		return "wake"
	case Raise:
		return "fence"
	case Leave:
		return "leave"
	}
	return "call"
}

// Call is one request to a node. Which fields count depends on Op; unused ones
// are zero.
type Call struct {
	Op       Op
	Key      string // the lock key, prefix included
	Token    string // the lock's value: who holds it
	Label    string // free text that the holder wants seen
	LabelKey string // "" where the lease has no label
	MarkKey  string // Break leaves it, Extend looks at it

	// Also are the further names of an Acquire, Extend, Release or Raise of several
	// at once (the _all scripts): an Acquire sets all or none; Extend and Raise need
	// all of them; Release frees those that are Token and is Deleted if all were. Of
	// Call itself a key that is empty counts for all names.
	Also []Names

	TTL      time.Duration // whole milliseconds, > 0 wherever a key is written
	KeepFor  time.Duration // Release: whole milliseconds, 0 = delete
	NotAfter int64         // Extend: µs of the node's TIME, 0 = no stamp

	SealKey       string
	QuarantineKey string
	Expect        string // Seal: what must stand there, "" = nothing
	Value         string // Seal: what to write, "" = look only
	Force         bool   // Seal: do not compare

	ClientID int64  // Kill
	Addr     string // Kill

	FenceKey string        // Acquire ("" = no fence), Raise: the name's counter
	Fence    int64         // Acquire: what is proposed, 0 = nothing; Raise: what it shall reach
	Block    int64         // Acquire: how many numbers a grant takes, > 0
	FenceTTL time.Duration // how long the counter lives, whole milliseconds
	Limit    int64         // Raise: µs

	Queue // Acquire, Release, Inspect, Leave; without a QueueKey there is none

	WakeKey string // Release, Leave ("" = wake nobody), Register, Unregister, PassOn
	Channel string // Register, Unregister, PassOn: whose
	// Spot is what decides in which bucket of a Cluster the call's keys lie; ""
	// for Key.
	Spot string
	// Tag is what every key of the call begins with, already: the hash tag of
	// a Cluster's bucket. Holds and Seals look behind it.
	Tag string
}

// Code is the kind of an answer.
type Code uint8

// The answers. None is the zero value: no reply came, and whether the call was
// executed is unknown.
const (
	None Code = iota
	OK
	Held    // Acquire: something stands at the key
	Mine    // Extend: ours, and extended
	Readded // Extend: was absent, set again
	Other   // Extend, Break: another's; Seal: not written
	Stale   // Extend: arrived too late, nothing written
	Broken  // Extend: absent, and Break had named our token
	Deleted // Release, Break
	Gone    // Release, Break: not there, or another's
	Error   // the server refused: Reply.Err says why
	Ahead   // Raise: too far ahead of the node's TIME, nothing written
	Full    // Acquire: no place in the queue, nothing written
)

// Reply is the answer to the call of the same index.
type Reply struct {
	Code Code
	Err  error // Code Error: the server's own words

	TTL    time.Duration // Probe, Inspect; Acquire with a QueueKey: until it may be free
	Type   string        // Probe, Inspect
	Value  string        // Inspect, Break, Holds
	Values []string      // Seals
	Label  string        // Inspect
	Time   int64         // Extend that was Stale, Acquire with a FenceKey or a QueueKey: µs of the node's TIME
	Fence  int64         // Acquire with a FenceKey: the end of the block

	Ticket int64    // Acquire with a QueueKey: what one who came now would get
	Length int      // Acquire with a QueueKey: how many queue
	Queue  []Waiter // Inspect with a QueueKey: who queues, the first one first

	// What a check shows (Check, Hello, Seal).
	Seal          string        // "" = none
	Quarantined   bool          //
	QuarantineTTL time.Duration // Hello and Seal only
	Master        bool          // Check and Hello only
	Replid        string        // master_replid now; "" where it is not shown

	Facts *Facts // Hello

	Woken bool // Release, PassOn, Leave: a waiter received the wake-up
}

// Facts is what the connection check learns of a server.
type Facts struct {
	ClientID     int64  // of this connection
	Addr         string // of this connection, as the server sees it; "" where it does not tell
	RunID        string
	Version      string // "7.0.15"
	Mode         string // "standalone", "cluster", "sentinel"
	Time         int64  // µs of the node's TIME
	MaxMemory    int64  // 0 = no limit
	Policy       string // maxmemory_policy
	AOF          bool   // aof_enabled
	Replicas     int    // connected_slaves
	MinReplicas  int    // min_slaves_good_slaves; -1 where INFO does not show it
	KillRefused  error  // why CLIENT KILL will not work, where that is known
	UptimeSecond int64
}

// Conn is one connection to a node. It is used by one goroutine at a time.
type Conn interface {
	// Do runs calls in order as one pipeline and fills replies, which is as
	// long and zeroed. It blocks no longer than the timeout that the
	// connection was dialled with. An error means that the connection is of
	// no more use; replies that had come by then are filled, the others stay
	// None. A server's refusal of one call is not an error of Do.
	Do(calls []Call, replies []Reply) error
	// Close ends the connection. It may be called at any time, from any
	// goroutine, more than once, and makes a Do in flight return.
	Close()
}

// Dialer makes connections to one node.
type Dialer interface {
	// Dial connects, authenticates and selects the database, within timeout;
	// every Do on the connection gets the same timeout. Of the node's own
	// refusals (WRONGPASS, NOAUTH, LOADING, …) the error holds the words.
	Dial(timeout time.Duration) (Conn, error)
	// Node names the node for errors and logs, without secrets.
	Node() string
	// DB is the database number, which is part of the seal.
	DB() int
}

// Listener is a [Dialer] of a node that can wake those who wait.
type Listener interface {
	// Listen connects as Dial does and subscribes to a channel; when it
	// returns, what is published there is heard.
	Listen(channel string, timeout time.Duration) (Ear, error)
}

// Ear is a connection that hears what is published on one channel.
type Ear interface {
	// Next blocks for the next message. An error means that the connection
	// is gone. It is called by one goroutine at a time.
	Next() (string, error)
	// Close ends the connection, at any time, from any goroutine, more than
	// once, and makes a Next in flight return.
	Close()
}

// Lagging is a Dialer behind which one server may take another's place, as in a
// Sentinel group or a Cluster. A Dialer without it is one server.
type Lagging interface {
	// Lag is how long a deposed server may go on granting after its successor
	// was named; the quarantine of this vote is so much longer (hazard H12).
	Lag() time.Duration
}
