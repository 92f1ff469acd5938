package redlock

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// fan is one vote of a Cluster: the buckets that it consists of. What bears a
// name goes to the bucket of that name; what does not, to all of them.
type fan struct {
	vote, votes int
	buckets     []*voter
	from        int // the first one's number
}

// bucket is the voter that a key stands with.
func (f *fan) bucket(key string) *voter {
	return f.buckets[bucketFor(key, f.vote, f.votes)-f.from]
}

func (f *fan) submit(c *call, now moment, inline bool) {
	switch {
	case c.t != nil:
		f.bucket(c.t.spot).submit(c, now, inline)
	case c.own.Key != "" && c.own.Op != seam.Holds:
		f.bucket(cmp.Or(c.own.Spot, c.own.Key)).submit(c, now, inline)
	default:
		f.all(c, now)
	}
}

// all asks every bucket, and answers as the worst of them. The lists of seals
// are asked of the first only: what they are for is the same on all.
func (f *fan) all(c *call, now moment) {
	buckets := f.buckets
	if c.own.Op == seam.Seals {
		buckets = buckets[:1]
	}
	w := &worst{c: c, fan: f, open: len(buckets), rank: -1}
	for i, v := range buckets {
		own := *c.own
		v.submit(&call{op: c.op, node: int32(i), own: &own, sink: w, patient: c.patient}, now, false) // #nosec G115 -- at most 64
	}
}

// worst is the sink of a question to all buckets.
type worst struct {
	mu    sync.Mutex
	c     *call
	fan   *fan
	open  int
	rank  int
	a     answer
	reply seam.Reply
}

func (w *worst) answered(c *call, a *answer) {
	rank, b := w.fan.judge(int(c.node), a)
	w.mu.Lock()
	if rank > w.rank {
		w.rank, w.a = rank, b
		if a.reply != nil {
			w.reply = *a.reply
		}
	}
	w.open--
	last := w.open == 0
	w.mu.Unlock()
	if last {
		if w.a.reply != nil {
			w.a.reply = &w.reply
		}
		deliver(w.c, &w.a)
	}
}

// judge ranks a bucket's answer by how bad it is.
func (f *fan) judge(i int, a *answer) (rank int, b answer) {
	v, b := f.buckets[i], *a
	if b.err == nil && b.reply != nil && b.reply.Code == seam.OK && b.reply.Facts != nil {
		if b.err = v.helloError(b.reply); b.err == nil {
			kind, _ := v.n.spec().kind(b.reply.Seal, b.reply.Replid)
			rank = slices.Index([]sealKind{sealOurs, sealStale, sealMissing, sealForeign}, kind) * 2
			if kind == sealOurs && b.reply.Quarantined {
				rank++
			}
			return rank, b
		}
	}
	if b.err != nil {
		b.code = seam.Error
		return 8, b
	}
	return 0, b
}

func (f *fan) killRefused() error {
	for _, v := range f.buckets {
		if err := v.killRefused(); err != nil {
			return err
		}
	}
	return nil
}

// of is the voter that a key stands with: itself, but for a Cluster's vote.
func (v *voter) of(key string) *voter {
	if v.fan == nil {
		return v
	}
	return v.fan.bucket(key)
}

// serves says that the vote has a connection.
func (v *voter) serves() bool {
	if v.fan == nil {
		return v.open.Load()
	}
	return slices.ContainsFunc(v.fan.buckets, func(b *voter) bool { return b.open.Load() })
}

// wardOver is the ward of a list of nodes, in which every bucket of a Cluster
// has a place.
func wardOver(nodes []Node, mode, prefix string, maxTTL time.Duration) *ward {
	var names []string
	var groups []int
	clusters := make(map[*cluster]int)
	for i, n := range nodes {
		v, ok := n.dialer.(*clusterVote)
		if !ok {
			names, groups = append(names, n.String()), append(groups, i)
			continue
		}
		if _, ok := clusters[v.c]; !ok {
			clusters[v.c] = i
		}
		for k, to := bucketsOf(v.vote, v.c.votes); k < to; k++ {
			names, groups = append(names, bucketName(n.String(), k)), append(groups, clusters[v.c])
		}
	}
	w := newWard(names, mode, prefix, maxTTL)
	w.n = len(nodes)
	if len(clusters) > 0 {
		w.groups = groups
	}
	return w
}

// place adds a voter to the places where a seal stands; of a Cluster's vote, its
// buckets.
func (l *Locker) place(v *voter) {
	vote, ok := v.dialer.(*clusterVote)
	if !ok {
		v.n.place = len(l.places)
		l.places = append(l.places, v)
		return
	}
	f := l.fleetOf(vote.c)
	v.n.votes = vote.c.votes
	from, to := bucketsOf(vote.vote, vote.c.votes)
	v.fan = &fan{vote: vote.vote, votes: vote.c.votes, from: from}
	for k := from; k < to; k++ {
		d := &bucketDialer{f, k, bucketName(v.n.name, k)}
		n := newNode(v.n.index, d.name, 0, l.ward, v.n.timeout)
		n.place, n.votes, n.lag = len(l.places), vote.c.votes, v.n.lag
		b := newVoter(n, d, v.clock)
		b.onNote, b.onAsked, b.onNeed = v.onNote, v.onAsked, l.openAll
		f.buckets[k] = b
		v.fan.buckets = append(v.fan.buckets, b)
		l.places = append(l.places, b)
	}
}

func (l *Locker) fleetOf(c *cluster) *fleet {
	for _, f := range l.fleets {
		if f.c == c {
			return f
		}
	}
	f := &fleet{c: c, mutant: l.set.mutant, conns: make(map[*bucketConn]struct{}), turns: make(map[string]chan struct{}), look: make(chan struct{}, 1), done: make(chan struct{})}
	l.fleets = append(l.fleets, f)
	return f
}

// openAll asks every bucket for its seal: one of them wants to be sealed, and
// none is before all were asked (hazard H21). Where a master was replaced, it
// starts the quarantines of all its buckets.
func (l *Locker) openAll() {
	if !l.ward.wanted.Load() || l.opened.Swap(true) {
		return
	}
	for _, f := range l.fleets {
		for _, v := range f.buckets {
			if v != nil {
				v.start()
			}
		}
	}
}

// spec is the seal that the node should bear.
func (n *node) spec() sealSpec {
	s := n.ward.spec(n.db)
	s.votes = n.votes
	return s
}

// outdated says that a connection to a Cluster's master was silent for so long
// that the master may have been replaced, and its successor be out of quarantine
// before this one has heard of it: the owner is looked up again (hazard H12).
// While it answers it is no older than its successor's quarantine, which is why
// that one is the longer by this time.
func (l *lane) outdated(now moment) bool {
	return l.n.votes > 0 && l.phase == phaseOpen && len(l.queue) > 0 &&
		now.since(l.sentAt) > deposedFor && !l.n.ward.mutant.has(mutantOldMaster)
}

// twin says that another vote of this round was answered by the same server. A
// quorum of votes on one server would be lost with it, and two votes of a
// Cluster may come to lie on one when slots are moved (hazards H17, H19).
func (h *hold) twin(i int, server string) bool {
	if server == "" || h.mutant.has(mutantTwinCounts) {
		return false
	}
	for j := range h.nodes {
		if j != i && h.nodes[j].server == server {
			return true
		}
	}
	return false
}

var errTwin error = &ConfigError{
	What: "vote", Value: "",
	Rule: "comes from the same master of the Cluster as another vote for this name, so only one of them counts; " +
		"spread the slots evenly over the masters, in order (redis-cli --cluster rebalance), or ask for fewer votes",
}
