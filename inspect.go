package redlock

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/seam"
)

// Status is how a name stands on the nodes.
type Status struct {
	Name string
	// Known says that a majority of the nodes answered, without those that have
	// no key and are in quarantine: they may have forgotten it.
	Known bool
	// Held says that one token stands on a majority of the nodes.
	Held bool
	// Token, Label and TTL are of the holder: TTL is how long a majority of
	// the nodes keeps it at least, if it is not renewed. Without a holder
	// they are zero.
	Token, Label string
	TTL          time.Duration
	Nodes        []NodeStatus // in the order of the Locker's nodes
}

// NodeStatus is how a name stands on one node.
type NodeStatus struct {
	Node  string
	Token string // "" = free
	Label string
	// TTL of the key; below zero for a key without one, which no holder of
	// this lock would leave.
	TTL time.Duration
	// Type of what stands there: "none", "string", or another type's name,
	// which is no lock.
	Type        string
	Quarantined bool
	Err         error // why it did not answer
}

// Inspect looks at a name on every node. It decides nothing: what it reports
// may be over by the time it returns. The error is that of ctx, [ErrClosed], or
// of a bad name; nodes that do not answer are in the Status. Names that calls lock
// with [WithBucket] are seen by a Locker that was made with it.
func (l *Locker) Inspect(ctx context.Context, name string) (Status, error) {
	s := Status{Name: name}
	if err := l.checkName(name); err != nil {
		return s, err
	}
	key := l.set.prefix + name
	spot := cmp.Or(l.set.lock.bucket, key)
	answers, err := l.ask(ctx, nil, func(int) seam.Call {
		return seam.Call{Op: seam.Inspect, Key: key, Spot: spot, LabelKey: labelKey(key)}
	})
	if err != nil {
		return s, err
	}
	need, known := majority(len(l.voters)), 0
	ttls := make(map[string][]time.Duration)
	labels := make(map[string]string)
	for i := range answers {
		a := &answers[i]
		ns := NodeStatus{Node: l.names[i], Err: a.err}
		abstains := l.voters[i].of(spot).quarantined()
		if a.code == seam.OK {
			if !abstains || a.reply.Value != "" {
				known++ // a node that may have forgotten says nothing by having no key
			}
			ns.Token, ns.Label, ns.TTL, ns.Type = a.reply.Value, a.reply.Label, a.reply.TTL, a.reply.Type
			if ns.Token != "" {
				ttls[ns.Token] = append(ttls[ns.Token], ns.TTL)
				labels[ns.Token] = ns.Label
			}
		}
		ns.Quarantined = abstains
		s.Nodes = append(s.Nodes, ns)
	}
	s.Known = known >= need
	for token, left := range ttls {
		if len(left) >= need {
			s.Held, s.Token, s.Label, s.TTL = true, token, labels[token], nthLongest(left, need)
		}
	}
	return s, nil
}

// nthLongest is the n-th longest of some times: what n of them reach.
func nthLongest(times []time.Duration, n int) time.Duration {
	for i := 1; i < len(times); i++ {
		for j := i; j > 0 && times[j] > times[j-1]; j-- {
			times[j], times[j-1] = times[j-1], times[j]
		}
	}
	return times[n-1]
}

// quarantined is what the lane knows without asking.
func (v *voter) quarantined() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n.abstains(quick(v.clock)) != nil
}

// Break frees name from the holder whose token is given, and from no other. The
// holder's renewals do not bring it back: its Lease is lost (LostBroken) with
// the next one. Of a name that is locked with [WithBucket] the Locker has to be made
// with it.
//
// Nil: that holder does not hold the name any more, on a majority. A
// *[QuorumError]: another holder has it (Is ErrHeld), or no majority answered
// (Is ErrNoQuorum).
func (l *Locker) Break(ctx context.Context, name, token string) error {
	if err := l.checkName(name); err != nil {
		return err
	}
	if token == "" || len(token) > maxName {
		return &ConfigError{"token", "", "must be the holder's; Inspect shows it"}
	}
	key := l.set.prefix + name
	l.lines.broken(name, token)
	answers, err := l.ask(ctx, nil, func(int) seam.Call {
		return seam.Call{
			Op: seam.Break, Key: key, Spot: l.set.lock.bucket, Token: token, MarkKey: markKey(key), LabelKey: labelKey(key), TTL: l.set.maxTTL,
		}
	})
	if err != nil {
		return err
	}
	e := &QuorumError{Name: name, N: len(l.voters), Need: majority(len(l.voters))}
	var all *multierror.Error
	for i := range answers {
		switch a := &answers[i]; a.code {
		case seam.Deleted, seam.Gone:
			e.Granted++
		case seam.Other:
			e.Held++
		default:
			e.Failed++
			all = appendNode(all, l.names[i], "break", a.err)
		}
	}
	if e.Granted >= e.Need {
		return nil
	}
	e.Nodes = all
	return e
}

// probe asks, on behalf of somebody who did not get a name, what stands in the
// way: how long it still lives there, and whether it is a lock at all. firm: one and
// the same holder's key stands on a majority, so that somebody may release it; else
// callers split the votes. False when ctx ended before the nodes had answered.
func (l *Locker) probe(ctx context.Context, b *holder, q *QuorumError) (firm, ok bool) {
	var nodes []int
	b.mu.Lock()
	for i, v := range b.h.round.votes {
		if v == voteHeld {
			nodes = append(nodes, i)
		}
	}
	b.mu.Unlock()
	label := labelKey(b.h.key)
	answers, err := l.ask(ctx, nodes, func(int) seam.Call {
		return seam.Call{Op: seam.Inspect, Key: b.h.key, Spot: b.h.spot, LabelKey: label}
	})
	if err != nil {
		return false, false
	}
	tokens := make(map[string]int, 1)
	var left []time.Duration
	for _, i := range nodes {
		a := &answers[i]
		if a.code != seam.OK || a.err != nil {
			continue
		}
		switch r := a.reply; {
		case r.Type == "none":
			left = append(left, 0)
		case r.Type != "string":
			q.Nodes = appendNode(q.Nodes, l.names[i], "acquire", &foreignKeyError{key: b.h.key, kind: r.Type})
		case r.TTL < 0:
			q.Nodes = appendNode(q.Nodes, l.names[i], "acquire", &foreignKeyError{key: b.h.key})
		default:
			left = append(left, r.TTL)
			tokens[r.Value]++
			firm = firm || tokens[r.Value] >= majority(len(l.voters))
		}
	}
	b.mu.Lock()
	q.RetryAfter = b.h.round.retryAfter(left)
	b.mu.Unlock()
	return firm, true
}

// foreignKeyError is a key that no lock would leave (hazards H16, H40).
type foreignKeyError struct {
	key, kind string
}

func (e *foreignKeyError) Error() string {
	if e.kind != "" {
		return "key " + e.key + " is a " + e.kind + " of somebody else's, not a lock; use another name or WithKeyPrefix"
	}
	return "key " + e.key + " has no TTL, so it is no lease of this lock and will not end by itself; " +
		"use another name or WithKeyPrefix, or delete it if it is a stuck lock"
}

// recheck asks the nodes that bore a foreign seal whether they still do.
func (l *Locker) recheck(ctx context.Context, nodes []int) {
	_, _ = l.askOf(ctx, l.places, nodes, func(int) seam.Call {
		return seam.Call{Op: seam.Check, SealKey: l.ward.sealKey, QuarantineKey: l.ward.quarantineKey}
	})
}
