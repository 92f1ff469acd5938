package redlock

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// A guard that nobody misses is no guard. Every switch in mutant.go is turned
// off here in turn, and what stands for the guard has to notice: the simulator,
// in the given number of seeds, or a story that keeps its end with the guard and
// loses it without. make mutants prints the table.

var (
	mutantRuns = flag.Int("mutant.runs", 1, "from how many starts the simulator looks for a mutant; the median is printed")
	mutantAll  = flag.Bool("mutant.all", false, "also the mutants that take long")
)

// mutantCase says what notices that a guard is off.
type mutantCase struct {
	m     mutant
	name  string
	seeds int                                       // the simulator's budget…
	story func(t *testing.T, m mutant) (sin string) // …or a story: what went wrong, "" for nothing
	slow  bool
}

var mutantCases = []mutantCase{
	{m: mutantNoInfo, name: "closing check without INFO", seeds: 2000},
	{m: mutantNoSeal, name: "votes count whatever the seal says", seeds: 1000},
	{m: mutantTokenReused, name: "one token for all attempts", seeds: 1000},
	{m: mutantValidFromReply, name: "validity from the answer", story: storyFromReply},
	{m: mutantNoDrift, name: "no drift", story: storyDrift},
	{m: mutantWonLate, name: "a majority that came too late wins", story: storyWonLate},
	{m: mutantHalfQuorum, name: "half of the nodes is enough", seeds: 1000},
	{m: mutantReaddedCounts, name: "READDED counts in its own round", story: storyReadded},
	{m: mutantReaddedTrusted, name: "a node given the key back counts at once", story: storyReadded},
	{m: mutantLateExtend, name: "an extend after the end counts", story: storyLateExtend},
	{m: mutantLostByStrangers, name: "nodes that never had the key speak for a loss", story: storyStrangers},
	{m: mutantExtendBound, name: "no extend on a node in quarantine", story: storyStrangers},
	{m: mutantNoQuarantine, name: "no quarantine", seeds: 1000},
	{m: mutantNodeClockOnly, name: "quarantine by the node's clock only", seeds: 20000},
	{m: mutantReplicaVotes, name: "a replica votes", story: storyReplica},
	{m: mutantForeignCounts, name: "votes under a foreign seal count", story: storyForeign},
	{m: mutantSealEarly, name: "sealed before every node was asked", story: storySealEarly},
	{m: mutantSameServer, name: "one server, two votes", story: storySameServer},
	{m: mutantEvicting, name: "a server that evicts votes", story: storyEvicting},
	{m: mutantInitTrusts, name: "Init with one seal present skips quarantine", story: storyInitTrusts},
	{m: mutantUndoGranted, name: "undone only where it was granted", seeds: 1000},
	{m: mutantHeldStays, name: "…nor where an extend came after HELD", seeds: 1000},
	{m: mutantSendsAfterEnd, name: "what is queued goes out after the end", seeds: 1000},
	{m: mutantNoStamp, name: "extends without a not-after stamp", story: storyStamp},
	{m: mutantNoKill, name: "broken connections are not killed", seeds: 1000},
	{m: mutantKillsStrangers, name: "CLIENT KILL without run_id", story: storyKillsStrangers},
	{m: mutantNoDebts, name: "an unanswered delete is forgotten", seeds: 1000},
	{m: mutantShortDebts, name: "…or with its first answer, while the old connection lives", story: storyShortDebts},
	{m: mutantLaneHop, name: "a token's calls take any lane", story: storyLaneHop},
	{m: mutantReleaseOnCtx, name: "Release ends with its caller's context", story: storyReleaseOnCtx},
	{m: mutantNoMargin, name: "the Context lives until the very end", story: storyNoMargin},
	{m: mutantNoBreakMark, name: "a renewal brings back what Break freed", story: storyBreakMark},
	{m: mutantGatedPolls, name: "first tries and polls ask one node first", story: storyGatedPolls},
	{m: mutantOwnerless, name: "a token without owner during a hand-over", seeds: 1000},
	{m: mutantOldHandle, name: "a lease that was handed over still releases", story: storyOldHandle},
	{m: mutantUndoWakes, name: "the undoing of an attempt wakes a waiter", story: storyUndoWakes},
	{m: mutantNoPassOn, name: "a wake-up dies with who could not use it", story: storyNoPassOn},
	{m: mutantStaleGift, name: "a hand-over without a look at the validity", story: storyStaleGift},
	{m: mutantNoStandBack, name: "hand-overs without end, no standing back", story: storyNoStandBack},
	{m: mutantNoLag, name: "a Sentinel vote with the quarantine of a plain master", story: storyNoLag},
	{m: mutantFirstView, name: "the first node says who owns a slot", story: storyFirstView},
	{m: mutantOldMaster, name: "a Cluster's old connection is trusted for ever", story: storyOldMaster},
	{m: mutantTwinCounts, name: "one master of a Cluster, two votes", story: storyTwin},
	{m: mutantBucketSeal, name: "a bucket's seal is not checked", story: storyBucketSeal},
	{m: mutantLateUndo, name: "an uncounted SET is deleted under a lease that lives", story: storyLateUndo},
	{m: mutantInnerFrees, name: "a nested Release frees the name", story: storyInnerFrees},
	{m: mutantReleasedTwice, name: "a handle is released twice", story: storyReleasedTwice},
	{m: mutantNestedUnfenced, name: "a nested call gets no fence where it asked for one", story: storyNestedUnfenced},
	{m: mutantNoWriteBack, name: "a fence is not written back", seeds: 1000},
	{m: mutantLoneWriteBack, name: "a fence is written back to one node", story: storyLoneWriteBack},
	{m: mutantAnyFence, name: "a fence is any node's, not the highest", story: storyAnyFence},
	{m: mutantBlockStart, name: "the first number of a block is stored, not the last", story: storyBlockStart},
	{m: mutantNoSpread, name: "a fence from clocks that are far apart", story: storyNoSpread},
	{m: mutantFarWriteBack, name: "a counter is lifted far ahead of its node's clock", story: storyFarWriteBack},
	{m: mutantExtendsFirst, name: "only the first of several names is extended", story: storyExtendsFirst},
	{m: mutantFirstSentinel, name: "the first sentinel says who is master", story: storyFirstSentinel},
	{m: mutantEpochBack, name: "a config epoch that went back is followed", story: storyEpochBack},
	{m: mutantKeptLanes, name: "connections to a replaced master are kept", story: storyKeptLanes},
}

func TestEveryMutantHasACase(t *testing.T) {
	require.GreaterOrEqual(t, len(mutantCases), 25)
	all := make(map[mutant]bool)
	for _, c := range mutantCases {
		require.False(t, all[c.m], "%s twice", c.name)
		all[c.m] = true
	}
	for m := mutant(1); m < mutantsEnd; m++ {
		require.True(t, all[m], "switch %d has no case", m)
	}
	require.Len(t, all, int(mutantsEnd)-1)
}

func TestMutants(t *testing.T) {
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	defer out.Flush()
	verbose := *mutantAll || testing.Verbose()
	for _, c := range mutantCases {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && !*mutantAll {
				t.Skip("make mutants runs it")
			}
			start := time.Now()
			by := c.caught(t)
			if verbose {
				fmt.Fprintf(out, "%s\t%s\t%v\n", c.name, by, time.Since(start).Round(time.Millisecond))
			}
		})
	}
}

// caught fails the test for a mutant that survives, and says what caught it.
func (c mutantCase) caught(t *testing.T) (by string) {
	t.Helper()
	if c.story != nil {
		require.Empty(t, c.story(t, 0), "with the guard")
		sin := c.story(t, c.m)
		require.NotEmpty(t, sin, "the mutant survived its story")
		return "story: " + sin
	}
	var counts []int
	for run := range *mutantRuns {
		_, broken, seed, _, _ := playSeeds(run*100_000, c.seeds, c.m)
		require.NotEmpty(t, broken, "the mutant survived %d seeds", c.seeds)
		counts = append(counts, int(seed)-run*100_000+1)
	}
	sort.Ints(counts)
	return fmt.Sprintf("simulator: median %d seeds", counts[len(counts)/2])
}
