package redlock

import (
	"flag"
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
	"github.com/redlock-go/redlock/internal/sim"
)

// This file drives the client's own state machines, lanes, rounds, renewals and
// releases, in the simulator: package internal/sim has the network, the nodes
// and the faults, simclient_test.go has the clients.

const (
	simTTL     = time.Second
	simTimeout = 100 * time.Millisecond
	simFaults  = 10 * time.Second // for so long something goes wrong
)

var (
	simSeeds = flag.Int("sim.seeds", 150, "how many seeds TestSimulation plays")
	simFirst = flag.Int("sim.first", 0, "the first of them")
)

// simRare has to happen sometimes.
var simRare = []string{
	"handed over", "extended before it was taken", "lost while handed over", "waits for its own process",
	"gated try", "refused at the gate", "woken and won", "wake-up passed on", "wake-up lost", "wake-up late",
	"woken for nobody", "woken while its process holds", "designated node died under a waiter",
	"moved to another node", "could not register",
	"fence in one round", "fence written back", "fence not written back",
}

// game is one run: a world, and clients that want one name for ever.
type game struct {
	*sim.World
	clients []*simClient
	grants  int
	last    time.Duration // the latest grant
	stop    bool          // nobody begins another attempt
	noKill  bool

	fence     Fence          // the latest grant's with one
	wakes     int            // releases that woke somebody
	sometimes map[string]int // what happened how often, of what has to happen sometimes
}

// lossy says whether messages get lost yet.
func (g *game) lossy() bool { return g.Now() < simFaults }

// newGame makes a run of 3 or 5 nodes and two to four clients, whose clocks
// differ.
func newGame(seed uint64, m mutant, set sim.Settings) *game {
	if set.Nodes == 0 {
		set.Nodes = 3 + 2*int(seed%2)
	}
	set.NoKill = seed%4 == 3
	fenced := seed%3 == 1
	if fenced {
		set.Clocks = 350 * time.Millisecond // a fence promises nothing over clocks that are worse than a part of Q
	}
	set.TTL, set.Q = simTTL, quarantineFor(simTTL)
	g := &game{World: sim.New(seed, set), noKill: set.NoKill, sometimes: make(map[string]int)}
	var names []string
	for i := range g.Nodes {
		names = append(names, fmt.Sprint("node", i))
	}
	for range 2 + g.Rand.IntN(3) {
		c := newSimClient(g, names, m)
		c.fenced = fenced && g.Rand.IntN(4) > 0
		g.clients = append(g.clients, c)
	}
	for i, node := range g.Nodes { // declared empty, as by Init
		var r [1]seam.Reply
		w := g.clients[0].ward
		seal := seam.Call{Op: seam.Seal, SealKey: w.sealKey, QuarantineKey: w.quarantineKey, Value: w.spec(0).text(0, node.Replid())}
		_ = node.Exec(node.NewSession(), []seam.Call{seal}, r[:])
		if r[0].Code != seam.OK {
			panic(fmt.Sprintf("node %d was not sealed", i))
		}
	}
	for _, c := range g.clients {
		for range c.idle {
			g.For(c.id, time.Duration(g.Rand.IntN(10))*time.Millisecond, c.next)
		}
	}
	return g
}

// play is a whole run: trouble, then quiet with a progress check, then the end,
// after which nothing may be left.
func (g *game) play() {
	g.Faults(simFaults)
	if !g.noKill {
		g.After(0, g.audit) // else a late SET may stand for a TTL (promise P8)
	}
	g.Run(simFaults)
	g.Calm()
	calmed := g.Now()
	// What the last fault left behind is over by then, and messages that were
	// on their way have arrived (up to 4 TTL each way).
	bound := 9*simTTL + quarantineFor(simTTL) + simTTL + 2*time.Second
	for g.Now() < calmed+bound && g.last <= calmed && g.Broken == "" {
		g.Run(g.Now() + simTTL)
	}
	if g.Broken == "" && g.last <= calmed {
		g.Violated("no progress: nobody held the name in %v after the faults had stopped", g.Now()-calmed)
	}
	g.stop = true
	g.Run(g.Now() + 3*simTTL)
	g.Run(g.Now() + 2*simTTL)
	for i, n := range g.Nodes {
		if token, _, ok := n.Get("lock:x"); ok && !g.noKill && g.Broken == "" {
			g.Violated("node %d still has the key of %s, two TTLs after the end", i, token)
		}
	}
}

// audit looks, all the time, whether a key stands somewhere that its owner has
// given up and believes to have cleaned up (hazard H1).
func (g *game) audit() {
	for i, n := range g.Nodes {
		token, _, ok := n.Get("lock:x")
		if !ok || g.Revived(i) {
			continue
		}
		var owner int
		if _, err := fmt.Sscanf(token, "%d-", &owner); err != nil {
			g.Violated("a key of nobody's: %q", token)
			return
		}
		c := g.clients[owner]
		mine := func(h *hold) bool { return h != nil && h.token == token && !h.over.Load() }
		if !mine(c.h) && !mine(c.try) && c.owesNothing(i) {
			g.Violated("node %d has the key of %s, whose owner thinks that it cleaned up", i, token)
		}
	}
	g.After(37*time.Millisecond, g.audit)
}

// playSeeds plays many seeds on all cores, and stops at the first violation.
func playSeeds(from, n int, m mutant) (played int, broken string, seed uint64, met map[string]int, grants int) {
	var next, done atomic.Int64
	var mu sync.Mutex
	met = make(map[string]int)
	seed = ^uint64(0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !stop.Load() {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				g := newGame(uint64(from)+uint64(i), m, sim.Settings{})
				g.play()
				done.Add(1)
				mu.Lock()
				grants += g.grants
				for k, v := range g.Met {
					met[k] += v
				}
				for k, v := range g.sometimes {
					met[k] += v
				}
				if g.Broken != "" && uint64(i) < seed {
					broken, seed = g.Broken, uint64(i)
					stop.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return int(done.Load()), broken, uint64(from) + seed, met, grants
}

func TestSimulationReplaysExactly(t *testing.T) {
	play := func(seed uint64) *game {
		g := newGame(seed, 0, sim.Settings{})
		g.play()
		return g
	}
	a, b, other := play(7), play(7), play(8)
	require.Equal(t, a.Digest(), b.Digest(), "the same seed is not the same run")
	require.NotEqual(t, a.Digest(), other.Digest())
	require.Empty(t, a.Broken)
	require.Greater(t, a.grants, 3, "nothing happened")
}

// TestSimulation plays many seeds: go test -run TestSimulation$ -sim.seeds 10000 .
func TestSimulation(t *testing.T) {
	start := time.Now()
	played, broken, seed, met, grants := playSeeds(*simFirst, *simSeeds, 0)
	require.Empty(t, broken, "go test -run TestSimulationOne -sim.seed %d -v .", seed)
	require.Greater(t, grants, 2*played)
	for _, fault := range sim.FaultNames() { // sometimes: what never happened was not tested
		for _, phase := range []string{"acquiring", "held"} {
			require.NotZero(t, met[fault+"/"+phase], "no %s ever met a client that was %s", fault, phase)
		}
	}
	for _, phase := range simPhases {
		if played < 1000 {
			break // some phases last for milliseconds
		}
		n := 0
		for k, v := range met {
			if strings.HasSuffix(k, "/"+phase) {
				n += v
			}
		}
		require.NotZero(t, n, "nothing ever met a client that was %s", phase)
	}
	for _, rare := range simRare {
		require.True(t, met[rare] > 0 || played < 1000, "never: %s", rare)
	}
	var table []string
	for k, v := range met {
		table = append(table, fmt.Sprintf("%6d %s", v, k))
	}
	sort.Strings(table)
	t.Logf("%d seeds, %d grants, in %v", played, grants, time.Since(start).Round(time.Millisecond))
	for _, line := range table {
		t.Log(line)
	}
}

var simSeed = flag.Int("sim.seed", -1, "the seed that TestSimulationOne plays, with its log")

// TestSimulationOne plays one seed and tells what happens.
func TestSimulationOne(t *testing.T) {
	if *simSeed < 0 {
		return
	}
	g := newGame(uint64(*simSeed), 0, sim.Settings{})
	g.Trace = func(line string) { t.Log(line) }
	g.play()
	require.Empty(t, g.Broken)
}
