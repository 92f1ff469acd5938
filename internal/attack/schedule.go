package attack

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what goes wrong.
type Kind string

// The kinds. Those of the first group need servers of our own; those of the
// second are made by the proxy before a node.
const (
	KillEmpty      Kind = "kill_restart_empty"  // SIGKILL, back without its data
	KillAOF        Kind = "kill_restart_aof"    // SIGKILL, back with its append-only file
	StopServer     Kind = "sigstop"             // SIGSTOP, SIGCONT
	FlushAll       Kind = "flushall"            // FLUSHALL
	ScriptFlush    Kind = "script_flush"        // SCRIPT FLUSH
	MaxMemory      Kind = "maxmemory"           // CONFIG SET maxmemory 1 and back
	ReplicaNowhere Kind = "replicaof_nowhere"   // REPLICAOF a port that nobody listens on, and back
	ReplicaPeer    Kind = "replicaof_peer"      // REPLICAOF another node, whose data it takes, and back
	DeleteKeys     Kind = "delete_keys_by_hand" // DEL of the locks; only of profile beyond

	BlackholeUp   Kind = "blackhole_up"   // what clients send is lost
	BlackholeDown Kind = "blackhole_down" // the replies are lost
	HoldUp        Kind = "hold_up"        // what clients send comes late, at the end of the fault
	HoldDown      Kind = "hold_down"      // the replies come late, at the end of the fault
	Delay         Kind = "delay"          // both ways take longer
	Reset         Kind = "reset"          // all connections get an RST
	CutReply      Kind = "cut_reply"      // an RST inside a reply
	DropReplies   Kind = "drop_replies"   // some replies are lost, then an RST
	Refuse        Kind = "refuse"         // connections are reset and new ones refused

	PauseClient Kind = "client_sigstop" // SIGSTOP, SIGCONT of a client process
	KillClient  Kind = "client_kill"    // SIGKILL of a client process, and a new one
)

// Fault is one entry of a schedule.
type Fault struct {
	At     time.Duration // from the start
	For    time.Duration // until it is undone
	Faulty time.Duration // from At, until its nodes are counted as sound again
	Kind   Kind
	Nodes  []int         // whom it hits; none for a fault of a client
	Client int           // which client, where there are no Nodes
	Peer   int           // ReplicaPeer: of whom
	Amount int           // bytes of CutReply, chunks of DropReplies
	Delay  time.Duration // each way
}

// trait is what the schedule must know of a kind. Lengths are in thousandths of
// the TTL.
type trait struct {
	kind        Kind
	least, most int
	forgets     bool // the node abstains for the quarantine afterwards
	own         bool // needs servers of our own
	aof         bool // needs a server with an append-only file
}

var nodeTraits = []trait{
	{kind: KillEmpty, most: 1000, forgets: true, own: true},
	{kind: KillAOF, most: 1000, forgets: true, own: true, aof: true},
	{kind: FlushAll, forgets: true, own: true},
	{kind: ReplicaNowhere, least: 100, most: 1000, forgets: true, own: true},
	{kind: ReplicaPeer, least: 200, most: 1500, forgets: true, own: true},
	{kind: StopServer, least: 100, most: 2500, own: true},
	{kind: ScriptFlush, own: true},
	{kind: MaxMemory, least: 200, most: 2000, own: true},
	{kind: BlackholeUp, least: 200, most: 2500},
	{kind: BlackholeDown, least: 200, most: 2500},
	{kind: HoldUp, least: 200, most: 2500},
	{kind: HoldDown, least: 200, most: 2500},
	{kind: Delay, least: 200, most: 2000},
	{kind: Reset},
	{kind: CutReply, least: 200, most: 1000},
	{kind: DropReplies, least: 200, most: 1000},
	{kind: Refuse, least: 200, most: 2000},
}

const (
	// firstFault leaves the clients a moment in which all is well.
	firstFault = 300 * time.Millisecond
	// settle is how long after a fault its node counts as faulty still: clients
	// come back to it within half a second.
	settle = 500 * time.Millisecond
	// noticed is how long it may take until the quarantine of a node that forgot
	// begins: with the first client that comes back.
	noticed = time.Second
)

// quarantine is how long a node abstains that may have forgotten leases.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + maxTTL/100 + 2*time.Second }

// minority is how many of n nodes may be faulty at a time.
func minority(n int) int { return (n - 1) / 2 }

// Schedule is what goes wrong in a run, in order of time. It depends on nothing
// but the seed and the Config. In profile Assume at most a minority of the nodes
// is faulty at any time, and no node is hit before it is sound again.
func Schedule(seed uint64, c Config) []Fault {
	c = c.withDefaults()
	p := &plan{
		c: c, rnd: rand.New(rand.NewPCG(seed, 0x63_68_61_6f_73)), n: c.size(), end: c.For - c.Quiet,
		nodes: make([]time.Duration, c.size()), clients: make([]time.Duration, c.Clients),
	}
	if c.Profile == Beyond {
		p.beyond()
	} else {
		p.assume()
	}
	return p.faults
}

// plan is a schedule in the making.
type plan struct {
	c              Config
	rnd            *rand.Rand
	n              int
	end            time.Duration   // all is undone by then
	nodes, clients []time.Duration // from when they are sound again
	faults         []Fault
}

func (p *plan) between(least, most time.Duration) time.Duration {
	d := least
	if most > least {
		d += time.Duration(p.rnd.Int64N(int64(most - least)))
	}
	return d.Round(time.Millisecond)
}

func (p *plan) chance(percent int) bool { return p.rnd.IntN(100) < percent }

// assume plans faults of a minority at a time, and of clients.
func (p *plan) assume() {
	for t := firstFault; t < p.end; t += p.between(100*time.Millisecond, 900*time.Millisecond) {
		if p.chance(20) && p.hitClient(t) {
			continue
		}
		// What is drawn may fit no node now; something else may.
		for range 4 {
			if p.hitNode(t, nodeTraits[p.rnd.IntN(len(nodeTraits))]) {
				break
			}
		}
	}
}

// beyond plans faults of majorities, against clients that know no quarantine.
func (p *plan) beyond() {
	// Servers take their time to come back; the keys are gone at once.
	kinds := []Kind{DeleteKeys, KillEmpty, DeleteKeys, FlushAll}
	for t, i := firstFault+p.c.TTL/2, 0; t < p.end; t, i = t+p.between(1200*time.Millisecond, 2200*time.Millisecond), i+1 {
		f := Fault{At: t, Kind: kinds[i%len(kinds)], Nodes: p.rnd.Perm(p.n)[:p.n/2+1], Client: -1, Peer: -1, Faulty: settle}
		slices.Sort(f.Nodes)
		p.faults = append(p.faults, f)
		if p.chance(30) {
			p.hitClient(t + 100*time.Millisecond)
		}
	}
	slices.SortStableFunc(p.faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// length is how long a fault lasts that begins at t, cut short by the end.
func (p *plan) length(t time.Duration, least, most int) time.Duration {
	ttl := p.c.TTL
	return min(p.between(ttl*time.Duration(least)/1000, ttl*time.Duration(most)/1000), p.end-t)
}

// hitClient pauses or kills a client, if one is free.
func (p *plan) hitClient(t time.Duration) bool {
	i := p.rnd.IntN(len(p.clients))
	kill := p.c.own() && p.chance(25)
	if p.clients[i] > t || t >= p.end {
		return false
	}
	f := Fault{At: t, Kind: KillClient, Client: i, Peer: -1}
	if !kill {
		f.Kind, f.For = PauseClient, p.length(t, 100, 2500)
	}
	p.clients[i] = t + f.For + settle
	p.faults = append(p.faults, f)
	return true
}

// hitNode breaks a node, if there is one that the profile allows to be broken.
func (p *plan) hitNode(t time.Duration, k trait) bool {
	var free []int
	faulty := 0
	for i, sound := range p.nodes {
		switch {
		case sound > t:
			faulty++
		case !k.aof || persistence(i) != noFile:
			free = append(free, i)
		}
	}
	if k.own && !p.c.own() || faulty >= minority(p.n) || len(free) == 0 {
		return false
	}
	i := free[p.rnd.IntN(len(free))]
	f := Fault{At: t, Kind: k.kind, Nodes: []int{i}, Client: -1, Peer: -1, For: p.length(t, k.least, k.most)}
	switch k.kind {
	case ReplicaPeer:
		f.Peer = (i + 1 + p.rnd.IntN(p.n-1)) % p.n
	case Delay:
		f.Delay = p.between(5*time.Millisecond, p.c.TTL*3/4)
	case CutReply:
		f.Amount = 1 + p.rnd.IntN(200)
	case DropReplies:
		f.Amount = 1 + p.rnd.IntN(5)
	}
	f.Faulty = f.For + settle
	if k.forgets {
		f.Faulty = f.For + noticed + quarantine(p.c.TTL)
	}
	p.nodes[i] = t + f.Faulty
	p.faults = append(p.faults, f)
	return true
}
