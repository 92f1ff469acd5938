package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/seam"
)

// Locker locks names on one set of nodes. It is made once, like a database
// handle, and is safe for concurrent use. It connects with the first call, and
// holds one connection per node (a few on slow links) and one goroutine for
// each, until Close.
type Locker struct {
	set    settings
	names  []string // of the nodes
	where  []string // their addresses, without secrets
	voters []*voter
	places []*voter    // the voters, and of a Cluster's votes all buckets
	fleets []*fleet    // one per Cluster
	groups []*watch    // one per Sentinel group
	opened atomic.Bool // all buckets were asked for
	ward   *ward
	sched  *scheduler
	lines  lines
	ears   ears
	log    *logger
	events *dispatcher
	token  func() string
	timers sync.Pool // of *time.Timer

	closing sync.Once
	closed  chan struct{}
}

// New makes a Locker over the given nodes, of which a majority must answer for
// anything to be locked: three or five. It does no I/O. Bad arguments are
// reported all together, each as a *[ConfigError].
func New(nodes []Node, opts ...Option) (*Locker, error) {
	set := defaults()
	for _, o := range opts {
		if o == nil {
			return nil, &ConfigError{"option", "nil", "leave it out"}
		}
		o.applyLocker(&set)
	}
	if err := errors.Join(checkNodes(nodes), set.complete()); err != nil {
		return nil, err
	}
	l := &Locker{set: set, closed: make(chan struct{}), token: newToken}
	l.lines.init(l)
	l.ears.init(l, len(nodes))
	l.sched = newScheduler(set.clock)
	l.log = newLogger(set.logger, set.clock)
	l.events = newDispatcher(set.hooks, l.log)
	for _, n := range nodes {
		l.names, l.where = append(l.names, n.String()), append(l.where, n.where)
	}
	mode := modeStrict
	if set.bestEffort {
		mode = modeBestEffort
	}
	l.ward = wardOver(nodes, mode, set.prefix, set.maxTTL)
	l.ward.mutant = set.mutant
	if set.mutant.has(mutantTokenReused) {
		token := newToken()
		l.token = func() string { return token }
	}
	for i, n := range nodes {
		v := newVoter(newNode(i, l.names[i], n.dialer.DB(), l.ward, set.nodeTimeout), n.dialer, set.clock)
		l.watchOver(v)
		if lagging, ok := n.dialer.(seam.Lagging); ok {
			v.n.lag = lagging.Lag()
		}
		v.onNote, v.onAsked = l.noted, l.askedAll
		l.voters = append(l.voters, v)
		l.place(v)
	}
	return l, nil
}

// newToken is a random UUID, as uuid.NewString makes it. That one reads through
// an io.Reader, which costs an allocation for every attempt.
func newToken() string {
	var u uuid.UUID
	_, _ = rand.Read(u[:])  // never fails
	u[6] = u[6]&0x0f | 0x40 // version 4
	u[8] = u[8]&0x3f | 0x80 // RFC 9562
	return u.String()
}

// checkNodes refuses lists that cannot be a quorum.
func checkNodes(nodes []Node) error {
	if len(nodes) == 0 {
		return &ConfigError{"nodes", "none", "give at least one; three or five to survive the loss of one or two"}
	}
	var errs []error
	seen := make(map[string]int)
	for i, n := range nodes {
		switch {
		case n.err != nil:
			errs = append(errs, n.err)
		case n.dialer == nil:
			errs = append(errs, &ConfigError{fmt.Sprintf("node %d", i), "", "is the zero Node; make it with Master, Client or ParseNodes"})
		default:
			if j, ok := seen[n.where]; ok {
				errs = append(errs, &ConfigError{fmt.Sprintf("node %d", i), n.String(), fmt.Sprintf("is listed twice (node %d is the same); list every server once", j)})
			}
			seen[n.where] = i
		}
	}
	return errors.Join(errs...)
}

// serving is how many nodes have a connection.
func (l *Locker) serving() int {
	n := 0
	for _, v := range l.voters {
		if v.serves() {
			n++
		}
	}
	return n
}

// noted tells the log and the hooks of a node that went down or came back.
func (l *Locker) noted(v *voter, n note) {
	if !n.up && !n.alone {
		l.ears.lost(v.n.index)
	}
	if n.alone {
		l.log.warn(l.names[v.n.index]+" replicas", "redlock: an old master of this group, cut off from its replicas, may go on granting", "node", v.n.name, "do", minReplicas)
		return
	}
	name := v.n.name // a Cluster's buckets are many, and one line for a vote is enough
	if n.up {
		l.events.nodeUp(NodeEvent{Node: name})
		return
	}
	l.log.warn(l.names[v.n.index], "redlock: a node does not vote", "node", name, "error", n.err)
	l.events.nodeDown(NodeEvent{Node: name, Err: n.err})
}

// askedAll lets the nodes that wait for a seal have it.
func (l *Locker) askedAll() {
	for _, v := range l.places {
		v.poke(false)
	}
}

// configVerdict is the error of a round that configuration ended (promise P2).
func (l *Locker) configVerdict(h *hold) error {
	if err := l.ward.foreignError(); err != nil {
		return err
	}
	bad := h.round.counts[voteConfig]
	return &configRoundError{
		conf: &ConfigError{
			What: "nodes", Value: fmt.Sprintf("%d of %d", bad, len(h.nodes)),
			Rule: "are set up so that no majority can vote",
		},
		nodes: h.nodeErrors("acquire", l.names),
	}
}

// configRoundError is a ConfigError with the nodes that made it.
type configRoundError struct {
	conf  *ConfigError
	nodes *multierror.Error
}

func (e *configRoundError) Error() string {
	if e.nodes == nil {
		return e.conf.Error()
	}
	return e.conf.Error() + ": " + e.nodes.Error()
}

func (e *configRoundError) Unwrap() []error {
	if e.nodes == nil {
		return []error{e.conf}
	}
	return []error{e.conf, e.nodes}
}

// appendNode adds one node's error to a list that may be nil.
func appendNode(all *multierror.Error, node, op string, err error) *multierror.Error {
	all = multierror.Append(all, ofNode(node, op, err))
	all.ErrorFormat = listErrors
	return all
}

// Close ends the Locker: waiters get ErrClosed, the Context of every lease is
// done (LostClosed) and its renewal stops; keys are left to their TTL. What is
// on its way to nodes that answer is still sent. It waits for the lanes, which
// takes at most a few node timeouts, and may be called more than once.
func (l *Locker) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		for _, b := range l.sched.close() {
			b.mu.Lock()
			b.lose(LostClosed) // unlocks
		}
		l.ears.close()
		for _, f := range l.fleets {
			close(f.done)
		}
		for _, w := range l.groups {
			w.close()
		}
		var wg sync.WaitGroup
		for _, v := range l.places {
			wg.Go(v.close)
		}
		wg.Wait()
		// The lanes, which may begin something there, are over.
		for _, f := range l.fleets {
			f.wg.Wait()
		}
		for _, w := range l.groups {
			w.wg.Wait()
		}
		l.events.close()
	})
	return nil
}

func (l *Locker) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// ask sends one call to every node, or to those given, and gathers the answers:
// one per node, with the zero answer for who is silent. It waits for all of
// them, at most for the node timeout or until ctx ends.
func (l *Locker) ask(ctx context.Context, nodes []int, make1 func(i int) seam.Call) ([]answer, error) {
	return l.askOf(ctx, l.voters, nodes, make1)
}

// askOf asks the voters, or every place where a seal stands.
func (l *Locker) askOf(ctx context.Context, who []*voter, nodes []int, make1 func(i int) seam.Call) ([]answer, error) {
	if nodes == nil {
		for i := range who {
			nodes = append(nodes, i)
		}
	}
	g := &gather{answers: make([]answer, len(who)), replies: make([]seam.Reply, len(who)), done: make(chan struct{}), open: len(nodes)}
	if len(nodes) == 0 {
		close(g.done)
	}
	patience := 2 * l.set.nodeTimeout // a dial, and the batch
	for _, i := range nodes {
		own := make1(i)
		if own.Key == l.set.prefix || own.Key == "" {
			// All buckets of a Cluster are asked, and connected in turns.
			patience = 2 * l.set.nodeTimeout * time.Duration(1+(len(l.places)-len(l.voters))/atOnce)
		}
		who[i].submit(&call{op: own.Op, node: int32(i), own: &own, sink: g, patient: true}, quick(l.set.clock), false)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	var err error
	select {
	case <-g.done:
	case <-t.C:
	case <-ctx.Done():
		err = &waitError{ctx: ctx.Err(), cause: context.Cause(ctx)}
	case <-l.closed:
		err = ErrClosed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for _, i := range nodes {
		if a := &g.answers[i]; a.code == seam.None && a.err == nil {
			a.err = errSilent
		}
	}
	return g.answers, err
}

// gather is the sink of ask.
type gather struct {
	mu      sync.Mutex
	answers []answer
	replies []seam.Reply
	open    int
	over    bool
	done    chan struct{}
}

func (g *gather) answered(c *call, a *answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	i := c.node
	g.answers[i] = *a
	if a.reply != nil {
		g.replies[i] = *a.reply
	}
	g.answers[i].reply = &g.replies[i]
	if g.open--; g.open == 0 {
		close(g.done)
	}
}
