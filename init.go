package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/seam"
)

// Init seals nodes that have no seal yet: the operator's word that nobody can
// hold a lock there. Without it the first acquire on a new deployment waits for
// the quarantine once (max TTL plus 1 % and 2 s).
//
// The quarantine is skipped only if all nodes answer, none has a seal and none
// holds keys of the prefix. If any has a seal, one without is a node that
// forgot: it gets the ordinary quarantine, and Init says so with an error that
// Is [ErrQuarantined]. On nodes that are all sealed for this setting it does
// nothing and returns nil, so it may be repeated. Do not call it at start-up:
// nodes that all restarted empty look new.
//
// Other errors: a *[QuorumError] when a node does not answer, Is [ErrConfig]
// for foreign seals and for keys of the prefix; nothing is written then.
func (l *Locker) Init(ctx context.Context) error { return l.init(ctx, false) }

// InitForce is Init that does not mind keys of the prefix: for a server that
// carries other data under it, or locks of another library during a migration.
// The caller vouches that no holder of this library's locks is alive.
func (l *Locker) InitForce(ctx context.Context) error { return l.init(ctx, true) }

func (l *Locker) init(ctx context.Context, force bool) error {
	defer l.sealByHand()()
	seen, err := l.survey(ctx, "init")
	if err != nil {
		return err
	}
	var fresh []int
	sealed := 0
	for i, a := range seen {
		spec := l.places[i].n.spec()
		switch kind, got := spec.kind(a.reply.Seal, a.reply.Replid); kind {
		case sealForeign:
			return l.ward.sawForeign(i, spec, got, a.reply.Seal)
		case sealMissing:
			fresh = append(fresh, i)
		case sealStale, sealOurs:
			sealed++
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if sealed > 0 && !l.set.mutant.has(mutantInitTrusts) {
		return l.initForgetful(ctx, fresh, seen)
	}
	if !force {
		if err := l.noKeys(ctx); err != nil {
			return err
		}
	}
	return l.writeSeals(ctx, "init", fresh, func(i int) seam.Call {
		return seam.Call{Value: l.places[i].n.spec().text(0, seen[i].reply.Replid)}
	})
}

// sealByHand keeps the lanes from sealing nodes with a quarantine until the
// function that it returns is called.
func (l *Locker) sealByHand() (end func()) {
	l.ward.byHand.Add(1)
	return func() {
		l.ward.byHand.Add(-1)
		l.askedAll()
	}
}

// initForgetful gives the nodes that forgot the ordinary quarantine.
func (l *Locker) initForgetful(ctx context.Context, nodes []int, seen []answer) error {
	err := l.writeSeals(ctx, "init", nodes, func(i int) seam.Call {
		return seam.Call{
			Value: l.places[i].n.spec().text(read(l.set.clock).wall, seen[i].reply.Replid),
			TTL:   ceilMillis(l.places[i].n.quarantine()),
		}
	})
	if err != nil && !errors.Is(err, errSealedMeanwhile) {
		return err // the lanes may have sealed a node first, with the same quarantine
	}
	var all *multierror.Error
	for _, i := range nodes {
		all = appendNode(all, l.ward.names[i], "init", &quarantineError{
			left: l.places[i].n.quarantine(), why: "it had no seal while others have one, so it is a node that forgot, not a new one",
		})
	}
	return all
}

// survey asks every node for its seal, and insists on every answer.
func (l *Locker) survey(ctx context.Context, op string) ([]answer, error) {
	answers, err := l.askOf(ctx, l.places, nil, func(int) seam.Call {
		return seam.Call{Op: seam.Hello, SealKey: l.ward.sealKey, QuarantineKey: l.ward.quarantineKey}
	})
	if err != nil {
		return nil, err
	}
	e := &QuorumError{Name: op, N: len(l.places), Need: len(l.places), late: true}
	var conf error
	told := make([]bool, len(l.voters)) // one line for a vote is enough, which may be many buckets
	for i := range answers {
		a := &answers[i]
		if a.err == nil {
			a.err = l.places[i].helloError(a.reply)
		}
		if a.err == nil {
			e.Granted++
			continue
		}
		e.Failed++
		if vote := l.places[i].n.index; !told[vote] {
			e.Nodes, told[vote] = appendNode(e.Nodes, l.ward.names[i], op, a.err), true
		}
		if _, ok := errors.AsType[*ConfigError](a.err); ok {
			conf = a.err
		}
	}
	switch {
	case e.Failed == 0:
		return answers, nil
	case conf != nil:
		return nil, &configRoundError{conf: &ConfigError{op, "", "needs every node"}, nodes: e.Nodes}
	}
	return nil, fmt.Errorf("redlock: %s needs every node to answer: %w", op, e)
}

func (v *voter) helloError(r *seam.Reply) error {
	if v.fan != nil {
		return nil // judged bucket by bucket
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n.helloError(r)
}

// noKeys insists that no node holds keys of the prefix.
func (l *Locker) noKeys(ctx context.Context) error {
	answers, err := l.askOf(ctx, l.places, nil, func(int) seam.Call { return seam.Call{Op: seam.Holds, Key: l.set.prefix} })
	if err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		switch {
		case a.err != nil:
			return fmt.Errorf("redlock: init needs every node to answer: %w", &NodeError{l.ward.names[i], "scan", a.err})
		case a.reply.Value != "":
			return &ConfigError{
				"node " + l.ward.names[i], "",
				fmt.Sprintf("has no seal but holds keys of the prefix %q (%.64q), so somebody may hold a lock there; "+
					"let them expire, or say that they are no locks of this library (InitForce, redlock init --force)",
					l.set.prefix, a.reply.Value),
			}
		}
	}
	return nil
}

// errSealedMeanwhile is a seal that somebody else wrote first.
var errSealedMeanwhile = errors.New("another client wrote the seal at the same time; look again")

// writeSeals writes a seal on every node given, each with the value that make1
// gives it.
func (l *Locker) writeSeals(ctx context.Context, op string, nodes []int, make1 func(i int) seam.Call) error {
	answers, err := l.askOf(ctx, l.places, nodes, func(i int) seam.Call {
		c := make1(i)
		c.Op, c.SealKey, c.QuarantineKey = seam.Seal, l.ward.sealKey, l.ward.quarantineKey
		return c
	})
	if err != nil {
		return err
	}
	var all *multierror.Error
	for _, i := range nodes {
		a := &answers[i]
		switch {
		case a.err != nil:
			all = appendNode(all, l.ward.names[i], op, a.err)
		case a.code != seam.OK:
			all = appendNode(all, l.ward.names[i], op, errSealedMeanwhile)
		default:
			l.places[i].resealed(a.reply)
		}
	}
	if all == nil {
		return nil
	}
	return fmt.Errorf("redlock: %s is not complete, and may be repeated: %w", op, all)
}

// resealed tells the node's machine of a seal that was written around it.
func (v *voter) resealed(r *seam.Reply) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n.sealed(r, quick(v.clock))
	v.n.ward.sawOwn(v.n.place)
}

// Reseal changes N or the max TTL of a deployment to this Locker's: in two
// passes over all nodes, first a seal that counts for nobody, so that clients of
// the old setting get ErrConfig, then the new one with a quarantine of the
// larger of the old and the new Q. One node that does not answer stops it, with
// a *[QuorumError]; it may be repeated, and has to be, until it returns nil.
// Nothing is locked until the quarantine ends.
func (l *Locker) Reseal(ctx context.Context) error {
	defer l.sealByHand()()
	seen, err := l.survey(ctx, "reseal")
	if err != nil {
		return err
	}
	q := l.ward.quarantine
	for _, a := range seen {
		if old, ok := parseSeal(a.reply.Seal); ok {
			q = max(q, quarantineFor(old.maxTTL))
		}
	}
	wall := read(l.set.clock).wall
	all := make([]int, len(l.places))
	for i := range all {
		all[i] = i
	}
	err = l.writeSeals(ctx, "reseal", all, func(i int) seam.Call {
		void := l.places[i].n.spec()
		void.mode, void.n, void.maxTTL = modeVoid, len(l.voters), resealedTTL(q)
		return seam.Call{Value: void.text(wall, seen[i].reply.Replid), Force: true}
	})
	if err != nil {
		return err
	}
	return l.writeSeals(ctx, "reseal", all, func(i int) seam.Call {
		at := read(l.set.clock).wall + q - l.ward.quarantine // past by at + Q, which is q from now
		return seam.Call{
			Value: l.places[i].n.spec().text(at, seen[i].reply.Replid),
			TTL:   ceilMillis(q + l.places[i].n.quarantine() - l.ward.quarantine), Force: true,
		}
	})
}

// resealedTTL is the max TTL that has the given quarantine: a Reseal that was
// interrupted leaves it in the void seals, for the one that finishes it.
func resealedTTL(q time.Duration) time.Duration {
	return ceilMillis(max(minTTL, (q-2*time.Second)*100/101)) + time.Millisecond
}
