package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// node is what all lanes to one server share: what it is, whether its votes
// count, and how its clock stands to ours. Like the lanes it is a state machine
// without goroutine or clock; its shell guards it.
type node struct {
	index   int
	place   int // in the ward: the index, but for a Cluster's buckets, of which a vote has many
	votes   int // of the Cluster that the node is a bucket of, 0 for a server of its own
	name    string
	db      int
	ward    *ward
	timeout time.Duration // the Locker's node timeout: of a dial, of a batch
	lag     time.Duration // how long a deposed server of this vote may go on granting
	lanes   []*lane

	// The seal that was read last, and whether its time has passed.
	sealText   string
	sealReplid string
	sealSeen   instant // when this very seal was first read
	sealPassed bool    // compared once per seal and connection

	needSeal bool   // a seal is to be written…
	expect   string // …over this one…
	replid   string // …for this replid
	wantLook bool   // a quarantine was seen, and nobody knows how much is left
	sealing  bool   // a Seal call is out

	quarFrom instant // a quarantine of quarLen was seen then
	quarLen  time.Duration

	facts    seam.Facts // of the newest connection check
	factsAt  instant    // when it was sent
	haveFact bool
	nodeTime int64        // µs of the node's TIME at factsAt, corrected by later answers
	ahead    atomic.Int64 // …and how far it is ahead of our monotonic clock; 0 = not known
	rtt      roundTrip

	open        int  // lanes that serve
	askedLast   bool // the last node that was missing was asked: the others may be sealed now
	killRefused error
	notes       []note // what happened, for the shell to log and tell
	up          bool
	group       bool // the master of a Sentinel group
	alone       bool // it was said that nothing stops it
}

// note is a node that went down or came back.
type note struct {
	up    bool
	alone bool // nothing stops a master of a Sentinel group that is cut off
	err   error
}

func newNode(index int, name string, db int, w *ward, timeout time.Duration) *node {
	n := &node{index: index, place: index, name: name, db: db, ward: w, timeout: timeout}
	n.lanes = []*lane{{n: n}}
	return n
}

// deposedFor is how long the old master of a Sentinel group or a Cluster may go
// on granting after a cut: min-replicas-max-lag, which is 10 s, and slack
// (design section 7).
const deposedFor = 12 * time.Second

// quarantine is how long the node abstains once it may have forgotten: the
// Locker's Q, and the time for which a deposed master of this vote may go on
// granting (hazard H12).
func (n *node) quarantine() time.Duration {
	if n.ward.mutant.has(mutantNoLag) {
		return n.ward.quarantine
	}
	return n.ward.quarantine + n.lag
}

// standing is whether a node's answers count, as the closing check shows it.
type standing struct {
	ok          bool
	vote        vote // when not ok
	err         error
	left        time.Duration
	quarantined bool
	foreign     bool
	drop        bool // the connection leads to something that is no master
}

// assess reads a closing check. SET before check is sound without a script: a
// flush, restart or change of role before the SET is seen here, and after the
// check it costs only our own key (design section 5).
func (n *node) assess(r *seam.Reply, now moment) standing {
	switch {
	case n.ward.mutant.has(mutantNoSeal), n.votes > 0 && n.ward.mutant.has(mutantBucketSeal):
		return standing{ok: true}
	case r.Code == seam.None:
		return standing{vote: voteFailed, err: errNoCheck}
	case r.Code != seam.OK:
		err := explain(r.Err)
		return standing{vote: n.failVote(err), err: err, drop: dropsConn(r.Err)}
	case !r.Master && !n.ward.mutant.has(mutantNoInfo) && !n.ward.mutant.has(mutantReplicaVotes):
		return standing{vote: voteFailed, err: errReplica, drop: true}
	case r.Replid == "":
		return standing{vote: voteFailed, err: errNoReplid}
	}
	s := n.readSeal(r, now)
	if err := n.ward.foreignError(); err != nil {
		// A foreign seal anywhere: no vote counts anywhere (promise P2).
		return standing{vote: voteForeign, err: err, foreign: true}
	}
	return s
}

var (
	errNoCheck  = errors.New("no answer to the closing check, without which the vote does not count")
	errNoReplid = errors.New("INFO replication shows no master_replid; connect to the server itself instead of a proxy")
)

// readSeal judges the seal and the quarantine of a check.
func (n *node) readSeal(r *seam.Reply, now moment) standing {
	if n.ward.mutant.has(mutantNoInfo) {
		if got, ok := parseSeal(r.Seal); ok {
			r.Replid = got.replid
		}
	}
	if n.sealPassed && r.Seal == n.sealText && r.Replid == n.sealReplid && !r.Quarantined {
		n.ward.sawOwn(n.place)
		return standing{ok: true}
	}
	spec := n.spec()
	kind, got := spec.kind(r.Seal, r.Replid)
	if kind == sealForeign && n.ward.mutant.has(mutantForeignCounts) {
		return standing{ok: true}
	}
	if kind == sealForeign {
		return standing{
			vote: voteForeign, foreign: true,
			err: n.ward.sawForeign(n.place, spec, got, r.Seal),
		}
	}
	n.ward.sawOwn(n.place)
	bestEffort := n.ward.mode == modeBestEffort
	if kind != sealOurs {
		n.needSeal, n.expect, n.replid = true, r.Seal, r.Replid
		if bestEffort {
			return standing{ok: true}
		}
		why := "it has no seal: it is new (redlock init), or it forgot everything"
		if kind == sealStale {
			why = "it restarted, was promoted or got its first replica, and may have forgotten leases"
		}
		return n.quarantined(n.quarantine(), why)
	}
	n.needSeal = false
	if bestEffort {
		n.sealText, n.sealReplid, n.sealPassed = r.Seal, r.Replid, true
		return standing{ok: true}
	}
	if r.Seal != n.sealText || r.Replid != n.sealReplid {
		n.sealText, n.sealReplid, n.sealSeen, n.sealPassed = r.Seal, r.Replid, now.instant, false
	}
	if n.ward.mutant.has(mutantNoQuarantine) {
		return standing{ok: true}
	}
	if r.Quarantined {
		left := n.quarantineLeft(now.instant)
		if left <= 0 {
			left, n.wantLook = n.quarantine(), true
		}
		return n.quarantined(left, "it restarted, was promoted or lost its data")
	}
	return n.outlived(got, now)
}

// outlived is the second guard of a quarantine. Its key lives on the node's
// wall clock, and a step of that clock after a boot is no coincidence; so our
// own wall clock must be past the seal's time + Q, or we must have watched this
// very seal for Q.
func (n *node) outlived(s seal, now moment) standing {
	q := n.quarantine()
	if s.at == 0 || n.sealPassed || n.ward.mutant.has(mutantNodeClockOnly) {
		n.sealPassed = true
		return standing{ok: true}
	}
	left := min(s.at+q-now.wall, q-now.waited(n.sealSeen))
	if left <= 0 {
		n.sealPassed = true
		return standing{ok: true}
	}
	return n.quarantined(left, "its seal is younger than the quarantine, whatever its own clock says")
}

func (n *node) quarantined(left time.Duration, why string) standing {
	return standing{
		vote: voteFailed, quarantined: true, left: left,
		err: &quarantineError{left: left, why: why},
	}
}

// quarantineLeft is what is known to be left of the node's quarantine.
func (n *node) quarantineLeft(now instant) time.Duration {
	if n.quarLen == 0 {
		return 0
	}
	return n.quarLen - (now.mono - n.quarFrom.mono)
}

// abstains is the answer to an acquire that need not be sent, because the node
// is known to be in quarantine; nil when it may vote.
func (n *node) abstains(now moment) *answer {
	if n.ward.mode == modeBestEffort || n.ward.mutant.has(mutantNoSeal) || n.votes > 0 && n.ward.mutant.has(mutantBucketSeal) {
		return nil
	}
	left := n.quarantineLeft(now.instant)
	if n.ward.mutant.has(mutantNoQuarantine) {
		left = 0
	}
	if n.needSeal {
		left = n.quarantine()
	}
	if left <= 0 {
		return nil
	}
	s := n.quarantined(left, "it restarted, was promoted, got its first replica, lost its data or is new")
	return &answer{vote: s.vote, err: s.err, left: left, quarantined: true}
}

// sealed reads the answer to a Seal call.
func (n *node) sealed(r *seam.Reply, now moment) {
	n.sealing = false
	if r.Code != seam.OK && r.Code != seam.Other {
		return // refused or lost: the next check asks again
	}
	n.needSeal, n.wantLook = false, false
	n.quarFrom, n.quarLen = now.instant, r.QuarantineTTL
}

// sealCall is the Seal that the node needs now. False: none.
func (n *node) sealCall(now moment) (seam.Call, bool) {
	c := seam.Call{Op: seam.Seal, SealKey: n.ward.sealKey, QuarantineKey: n.ward.quarantineKey}
	switch {
	case n.sealing:
		return c, false
	case n.needSeal && n.ward.maySeal():
		c.Expect = n.expect
		c.Value = n.spec().text(now.wall, n.replid)
		if n.ward.mode == modeStrict {
			c.TTL = ceilMillis(n.quarantine())
		}
		return c, true
	case n.wantLook:
		return c, true
	}
	return c, false
}

// learn takes the facts of a connection check, sent at the given moment.
func (n *node) learn(f *seam.Facts, sent, now instant) {
	n.facts, n.haveFact = *f, true
	n.correct(f.Time, sent)
	if f.KillRefused != nil {
		n.killRefused = f.KillRefused
	}
	n.rtt.measure(now.mono-sent.mono, now.mono)
	if n.group && f.MinReplicas < 0 && !n.alone {
		n.alone = true
		n.notes = append(n.notes, note{alone: true})
	}
}

// stamp is the not-after of an extend that is sent now: what the node's TIME
// will be when our patience ends. The estimate errs late by up to one round
// trip, so a healthy node never finds it stale.
func (n *node) stamp(now instant) int64 {
	if !n.haveFact || n.ward.mutant.has(mutantNoStamp) {
		return 0
	}
	return n.nodeTime + (now.mono - n.factsAt.mono).Microseconds() + n.timeout.Microseconds()
}

// correct takes the node's TIME from the answer to something sent then.
func (n *node) correct(micros int64, sent instant) {
	n.nodeTime, n.factsAt = micros, sent
	n.ahead.Store(micros - sent.mono.Microseconds())
}

// failVote tells trouble from configuration (promise P2).
func (n *node) failVote(err error) vote {
	if _, ok := errors.AsType[*ConfigError](err); ok {
		return voteConfig
	}
	return voteFailed
}

// A member of a Cluster answers only for its own slots, and hands them over to
// another server at any time (scenario SYS-05).
const clusterMember = "the server is a member of a Redis Cluster, which is no independent master; give the Cluster with Cluster (redis+cluster://), or list masters that are not"

// explain adds to a server's refusal what the reader can do. Refusals that
// waiting does not mend become ConfigErrors.
func explain(err error) error {
	if err == nil {
		return errors.New("refused")
	}
	if e, ok := errors.AsType[*slotError](err); ok {
		return e
	}
	text := err.Error()
	for _, rule := range [...]struct{ word, do string }{
		{"WRONGPASS", "give the node's user and password"},
		{"NOAUTH", "the node wants a password; give one"},
		{"NOPERM", "give the user the rights that the lock needs"},
		{"invalid password", "give the node's password"},
		{"without any password configured", "the node has no password; give none"},
		{"MOVED ", clusterMember},
		{"CLUSTERDOWN", clusterMember},
		{"CROSSSLOT", clusterMember},
	} {
		if strings.Contains(text, rule.word) {
			if _, ok := errors.AsType[*ConfigError](err); ok {
				return err
			}
			return &ConfigError{What: "refused", Value: text, Rule: rule.do}
		}
	}
	for _, hint := range [...]struct{ word, do string }{
		{"OOM ", "raise maxmemory, or free some"},
		{"MISCONF ", "the server cannot save; see its log and disk"},
		{"NOREPLICAS ", "bring its replicas back, or lower min-replicas-to-write"},
		{"WRONGTYPE ", "a key of another kind stands there; use another name or WithKeyPrefix"},
	} {
		if strings.HasPrefix(text, hint.word) {
			return fmt.Errorf("%w (%s)", err, hint.do)
		}
	}
	return err
}

// dropsConn says whether a refusal means that the connection leads to the
// wrong place, or to a server that is not ready: a new one may lead elsewhere.
func dropsConn(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*slotError](err); ok {
		return e.moves
	}
	text := err.Error()
	for _, word := range [...]string{"READONLY", "LOADING", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "NOAUTH"} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

// helloCall is the connection check.
func (n *node) helloCall() seam.Call {
	return seam.Call{Op: seam.Hello, SealKey: n.ward.sealKey, QuarantineKey: n.ward.quarantineKey}
}

// ask records that the node was asked for its seal.
func (n *node) ask() {
	if n.ward.ask(n.place) {
		n.askedLast = true
	}
}

// laneUp, laneBroke and laneDown keep what the node is worth as a whole.
func (n *node) laneUp() {
	n.open++
	n.sealPassed = false // compared anew on every connection
	if !n.up {
		n.up = true
		n.notes = append(n.notes, note{up: true})
	}
}

func (n *node) laneBroke() {
	if n.open--; n.open <= 0 {
		n.open = 0
		n.ward.part(n.place)
	}
}

func (n *node) laneDown(err error) {
	if n.open == 0 {
		n.up = false
		n.notes = append(n.notes, note{err: err})
	}
}
