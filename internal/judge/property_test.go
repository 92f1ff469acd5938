package judge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// legal are histories of the toy server: what a lock did.
var legal = sync.OnceValue(func() []History {
	histories := make([]History, 36)
	for i := range histories {
		histories[i] = runToy(uint64(i), 2+i%6, 1+i%3, 40*time.Second)
	}
	return histories
})

func TestLegalIsAcquitted(t *testing.T) {
	all := Verdict{}
	for seed, h := range legal() {
		v := Judge(h, Options{TTL: toyTTL})
		require.True(t, v.OK(), "seed %d: %v", seed, v)
		all.Ops, all.Grants, all.Unknowns = all.Ops+v.Ops, all.Grants+v.Grants, all.Unknowns+v.Unknowns
	}
	require.Greater(t, all.Grants, 1000)
	require.Greater(t, all.Unknowns, 500)
	t.Logf("%d operations, %d grants, %d unknown", all.Ops, all.Grants, all.Unknowns)
}

// next is a random hold of some length that another of the same name follows,
// and that one; nil when there is none.
func next(h History, rnd *rand.Rand) (a, b *hold) {
	var pairs [][2]*hold
	l := read(h)
	for _, name := range h.names() {
		holds := l.named[name]
		for i := 1; i < len(holds); i++ {
			if a, b := holds[i-1], holds[i]; a.to-a.from > 10 && b.to-b.from > 10 {
				pairs = append(pairs, [2]*hold{a, b})
			}
		}
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	p := pairs[rnd.IntN(len(pairs))]
	return p[0], p[1]
}

// without is the history without what ends a token.
func without(h History, b *hold) History {
	return slices.DeleteFunc(slices.Clone(h), func(o Op) bool {
		_, ends := closes(&o)
		return ends && o.Token == b.key.token && o.Name == b.key.name
	})
}

// mutations each make a legal history illegal, by one thing.
var mutations = map[string]struct {
	rules  []string // among those broken
	mutate func(h History, rnd *rand.Rand, a, b *hold) History
}{
	"hold beyond": {[]string{RuleOverlap, RulePorcupine}, func(h History, rnd *rand.Rand, a, b *hold) History {
		h = without(h, a)
		for i := range h {
			if o := &h[i]; o.Kind == Acquire && o.Token == a.key.token {
				o.Until = b.from + 1 + time.Duration(rnd.Int64N(int64(b.to-b.from)))
			}
		}
		return h
	}},
	"second grant": {[]string{RuleOverlap, RulePorcupine}, func(h History, rnd *rand.Rand, a, _ *hold) History {
		at := a.from + 1 + time.Duration(rnd.Int64N(int64(a.to-a.from-2)))
		return append(h, Op{Client: "z", Kind: Acquire, Name: a.key.name, Token: "z", Start: max(a.from+1, at-3), End: at, Outcome: OK, Until: at + 1})
	}},
	"second grant over at once": {[]string{RulePorcupine}, func(h History, rnd *rand.Rand, a, _ *hold) History {
		at := a.from + 1 + time.Duration(rnd.Int64N(int64(a.to-a.from-2)))
		return append(h, Op{Client: "z", Kind: Acquire, Name: a.key.name, Token: "z", Start: at, End: at, Outcome: OK, Until: at})
	}},
	"trust": {[]string{RuleTrust}, func(h History, rnd *rand.Rand, a, _ *hold) History {
		at := a.to + 1 + time.Duration(rnd.Int64N(int64(toyTTL)))
		return append(h, Op{Client: a.got.Client, Kind: Check, Name: a.key.name, Token: a.key.token, Start: at, End: at, Outcome: OK})
	}},
	"same fence": {[]string{RuleFence}, func(h History, _ *rand.Rand, a, b *hold) History {
		for i := range h {
			if o := &h[i]; o.Kind == Acquire && o.Token == b.key.token {
				o.Fence = a.got.Fence
			}
		}
		return h
	}},
}

func TestMutatedIsCondemned(t *testing.T) {
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			tried := 0
			for seed, h := range legal() {
				rnd := rand.New(rand.NewPCG(uint64(seed), 2))
				a, b := next(h, rnd)
				if a == nil {
					continue
				}
				tried++
				bad := m.mutate(slices.Clone(h), rnd, a, b)
				rnd.Shuffle(len(bad), func(i, k int) { bad[i], bad[k] = bad[k], bad[i] })
				v := Judge(bad, Options{TTL: toyTTL})
				require.Subset(t, v.Rules(), m.rules, "seed %d: %v, %v", seed, a, b)
			}
			require.Greater(t, tried, 15)
		})
	}
}

// chaos is a small random history, legal or not, in which clients are sane: what
// they promise makes sense, and nobody extends what has ended.
func chaos(rnd *rand.Rand) History {
	var h History
	at := func(from int) int { return from + rnd.IntN(8) }
	for i := range 2 + rnd.IntN(5) {
		o := Op{Client: fmt.Sprint("c", i), Kind: Acquire, Name: "x", Token: fmt.Sprint("t", i), Outcome: OK}
		start := rnd.IntN(30)
		end := at(start)
		until := at(start) + rnd.IntN(8)
		o.Start, o.End, o.Until = time.Duration(start), time.Duration(end), time.Duration(until)
		switch rnd.IntN(6) {
		case 0:
			o.Outcome, o.Until = Unknown, 0
		case 1:
			o.Outcome, o.Until = Failed, 0
		}
		h = append(h, o)
		if o.Outcome == OK && rnd.IntN(3) == 0 && until > end {
			x := o
			x.Kind, x.Start, x.End = Extend, time.Duration(end+rnd.IntN(until-end)), time.Duration(until)
			x.Until += time.Duration(rnd.IntN(8))
			h = append(h, x)
			until = int(x.Until)
			start = int(x.Start)
		}
		if rnd.IntN(3) == 0 && until >= start {
			x := o
			x.Kind, x.Until = Release, 0
			x.Start = time.Duration(max(start, end) + rnd.IntN(6))
			x.End = x.Start + time.Duration(rnd.IntN(6))
			h = append(h, x)
		}
	}
	return h
}

func TestWhatOverlapsHasNoOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	both, none, more := 0, 0, 0
	for range 5_000 {
		h := chaos(rnd)
		require.Empty(t, Malformed(h))
		require.Empty(t, EarlyTrust(h))
		switch overlaps, fails := len(Overlaps(h)) > 0, len(Linearizable(h, 0)) > 0; {
		case overlaps:
			require.True(t, fails, "an overlap with an order: %v", h)
			both++
		case fails:
			more++
		default:
			none++
		}
	}
	t.Logf("%d overlap, %d more have no order, %d are fine", both, more, none)
	require.Greater(t, min(both, none, more), 50)
}

// TestOverlapsFollowTheFurthest: the second overlap is with the first hold, not
// with the short one between.
func TestOverlapsFollowTheFurthest(t *testing.T) {
	f, err := os.Open("testdata/condemn-overlap-behind-a-short-one.jsonl")
	require.NoError(t, err)
	defer f.Close()
	h, err := Read(f)
	require.NoError(t, err)
	found := Overlaps(h)
	require.Len(t, found, 2)
	require.Contains(t, found[1].Text, `two holders of "x" for 58ms: a (token A)`)
	require.Len(t, found[1].Ops, 4)
}
