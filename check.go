package redlock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Severity says how much a Finding matters.
type Severity int

// The severities, least first.
const (
	Info    Severity = iota // worth knowing
	Warning                 // safe, but not as it should be
	Problem                 // the node does not vote, or its vote is not safe
)

func (s Severity) String() string {
	return [...]string{"info", "warning", "problem"}[s]
}

// MarshalText writes the severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that Check found, and what to do about it.
type Finding struct {
	Severity Severity
	What, Do string
}

// NodeReport is what Check says of one node.
type NodeReport struct {
	Node     string
	OK       bool // no finding is a Problem
	Findings []Finding
}

func (r *NodeReport) add(s Severity, what, do string) {
	r.Findings = append(r.Findings, Finding{s, what, do})
	r.OK = r.OK && s != Problem
}

// Check asks every node whether it is fit to vote: reachable, a master, no
// other node of the list, sealed for this setting and out of quarantine, not
// evicting, with a clock near the others'. It writes nothing. Nodes come in the
// order of the Locker's; a ctx that ends early leaves the rest unreachable.
func (l *Locker) Check(ctx context.Context) []NodeReport {
	hello := func(int) seam.Call {
		return seam.Call{Op: seam.Hello, SealKey: l.ward.sealKey, QuarantineKey: l.ward.quarantineKey}
	}
	answers, err := l.ask(ctx, nil, hello)
	if err != nil && answers == nil {
		answers = make([]answer, len(l.voters))
	}
	seals, _ := l.ask(ctx, nil, func(int) seam.Call { return seam.Call{Op: seam.Seals} })
	now := read(l.set.clock)
	reports := make([]NodeReport, len(l.voters))
	var offsets []time.Duration
	for i := range reports {
		r := &reports[i]
		r.Node, r.OK = l.names[i], true
		a := &answers[i]
		if a.code != seam.OK || a.reply == nil || a.reply.Facts == nil {
			why := a.err
			if why == nil {
				why = errSilent
			}
			r.add(Problem, why.Error(), "start it, or mend the address, the network or the credentials")
			continue
		}
		l.checkServer(r, i, a.reply)
		l.checkSeal(r, i, a.reply)
		if i < len(seals) && seals[i].reply != nil {
			l.checkPrefixes(r, seals[i].reply.Values)
		}
		offset := time.Duration(a.reply.Facts.Time)*time.Microsecond - now.wall
		offsets = append(offsets, offset)
		checkClock(r, offset)
	}
	if n := len(reports); n > 0 {
		if n%2 == 0 {
			reports[0].add(Warning, fmt.Sprintf("N = %d is even: it survives no more losses than %d would", n, n-1),
				"use an odd number of nodes, three or five")
		}
		if spread := spreadOf(offsets); spread > time.Second {
			reports[0].add(Warning, fmt.Sprintf("the nodes' clocks are %v apart", spread.Round(time.Millisecond)),
				"let NTP discipline every server; never step a clock under a running lock")
		}
	}
	return reports
}

// checkServer reports on what the server is.
func (l *Locker) checkServer(r *NodeReport, i int, reply *seam.Reply) {
	if err := l.voters[i].helloError(reply); err != nil {
		r.add(Problem, err.Error(), "see the message; the node does not vote until it is mended")
	}
	f := reply.Facts
	if !atLeast(f.Version, 6, 2) {
		r.add(Warning, "version "+f.Version+" is older than 6.2", "use Redis 6.2 or newer; older ones are not tested")
	}
	if l.voters[i].n.group {
		switch {
		case f.MinReplicas < 0:
			r.add(Problem, "it is a Sentinel group's master without min-replicas-to-write: cut off from its replicas it goes on granting, while another is promoted", minReplicas)
		case f.MinReplicas == 0:
			r.add(Problem, "it has no replica in sync, so it refuses to grant", "bring a replica back")
		}
	}
	if f.KillRefused != nil || l.voters[i].killRefused() != nil {
		r.add(Warning, "CLIENT KILL or CLIENT INFO is refused, so what a hung node still holds of ours is cleaned up by repeated deletes instead",
			"allow +client|kill +client|info +client|id")
	}
	if !f.AOF {
		r.add(Info, "it keeps no append-only file: after a crash it forgets its locks and abstains for "+l.voters[i].n.quarantine().String(),
			"nothing; or appendonly yes, to lose less when several restart")
	}
	if f.MaxMemory == 0 && f.Policy != "noeviction" {
		r.add(Warning, "maxmemory-policy is "+f.Policy+", which will evict locks as soon as a maxmemory is set", "set maxmemory-policy noeviction")
	}
}

func (v *voter) killRefused() error {
	if v.fan != nil {
		return v.fan.killRefused()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n.killRefused
}

// checkSeal reports on the node's seal and quarantine.
func (l *Locker) checkSeal(r *NodeReport, i int, reply *seam.Reply) {
	spec := l.voters[i].n.spec()
	switch kind, got := spec.kind(reply.Seal, reply.Replid); kind {
	case sealForeign:
		r.add(Problem, fmt.Sprintf("it is sealed for another setting: it has %s, this client has %s", got.describe(reply.Seal), spec),
			"set every client alike, or change the deployment with redlock init --replace")
	case sealMissing:
		r.add(Problem, "it has no seal: it is new, or it forgot everything", "redlock init, if no node of the list was ever used")
	case sealStale:
		r.add(Problem, "it restarted or was promoted and is not sealed again yet", "wait: the first lock does it; it then abstains for "+l.voters[i].n.quarantine().String())
	case sealOurs:
		if reply.Quarantined && l.ward.mode == modeStrict {
			r.add(Problem, "it is quarantined for another "+reply.QuarantineTTL.Round(time.Millisecond).String(), "wait")
		}
	}
}

// checkPrefixes reports seals whose prefix begins with ours or the other way
// round: their clients can write the same key under two seals.
func (l *Locker) checkPrefixes(r *NodeReport, keys []string) {
	for _, key := range keys {
		other := strings.TrimPrefix(key, "redlock:seal:")
		if other != l.set.prefix && (strings.HasPrefix(other, l.set.prefix) || strings.HasPrefix(l.set.prefix, other)) {
			r.add(Warning, fmt.Sprintf("it is also sealed for the prefix %q, and one of that and %q begins with the other: "+
				"the same key can be locked under both", other, l.set.prefix), "use one prefix, or prefixes that do not begin with one another")
		}
	}
}

// checkClock reports a node whose clock is far from ours.
func checkClock(r *NodeReport, offset time.Duration) {
	if offset > 10*time.Second || offset < -10*time.Second {
		r.add(Warning, fmt.Sprintf("its clock is %v from this machine's", offset.Round(time.Millisecond)),
			"let NTP discipline both")
	}
}

// spreadOf is the distance between the least and the largest.
func spreadOf(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	lo, hi := times[0], times[0]
	for _, t := range times {
		lo, hi = min(lo, t), max(hi, t)
	}
	return hi - lo
}

// atLeast compares a server's version; one that cannot be read passes.
func atLeast(version string, major, minor int) bool {
	part := strings.SplitN(version, ".", 3)
	if len(part) < 2 {
		return true
	}
	a, err1 := strconv.Atoi(part[0])
	b, err2 := strconv.Atoi(part[1])
	return err1 != nil || err2 != nil || a > major || a == major && b >= minor
}
