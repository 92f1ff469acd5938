package judge

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// usual is the model as one writes it without thinking about the price: what is
// unknown, and every end, returns at infinity; an Acquire that is unknown takes
// the lock if it is free then, and has an end from its start on.
func usual(h History) (porcupine.Model, []porcupine.Operation) {
	type maybe struct{ kind, token string }
	var ops []porcupine.Operation
	add := func(kind, token string, call, ret time.Duration) {
		ops = append(ops, porcupine.Operation{Input: maybe{kind, token}, Call: int64(call), Return: int64(ret)})
	}
	l := read(h)
	for i := range h {
		switch o := &h[i]; {
		case o.Kind == Acquire && o.Outcome == OK:
			add("acquire", o.Token, o.Start, o.End)
			add("end", o.Token, l.holds[tokenKey{o.Name, o.Token}].to, math.MaxInt64)
		case o.Kind == Acquire && o.Outcome == Unknown:
			add("maybe acquire", o.Token, o.Start, math.MaxInt64)
			add("maybe end", o.Token, o.Start, math.MaxInt64)
		case o.Kind == Extend && o.Outcome == OK:
			add("extend", o.Token, o.Start, o.End)
		}
	}
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, in, _ any) (bool, any) {
			now, i := state.(string), in.(maybe)
			switch i.kind {
			case "acquire":
				return now == "", i.token
			case "end":
				return now == i.token, ""
			case "extend":
				return now == i.token, now
			case "maybe acquire":
				if now == "" {
					now = i.token
				}
				return true, now
			default:
				if now == i.token {
					now = ""
				}
				return true, now
			}
		},
	}, ops
}

func TestModelSaysWhatTheUsualOneSays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	said := make(map[bool]int)
	for range 5_000 {
		h := chaos(rnd)
		want := porcupine.CheckOperations(usual(h))
		require.Equal(t, want, len(Linearizable(h, 0)) == 0, "%v", h)
		ok := true
		for _, p := range pieces(read(h).named["x"], 1, noClient) {
			ok = ok && porcupine.CheckOperations(lockModel(p.holder), p.ops)
		}
		require.Equal(t, want, ok, "in pieces: %v", h)
		said[want]++
	}
	require.Greater(t, min(said[true], said[false]), 300)
}

// TestPiecesSayWhatTheWholeSays compares with the history that is not cut.
func TestPiecesSayWhatTheWholeSays(t *testing.T) {
	cuts, said := 0, make(map[bool]int)
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		h := runToy(seed, 2+int(seed%5), 1, 60*time.Second)
		if a, b := next(h, rnd); seed%3 > 0 && a != nil {
			h = mutations[[]string{"hold beyond", "second grant"}[seed%2]].mutate(h, rnd, a, b)
		}
		holds := read(h).named["n0"]
		parts, n, ok := pieces(holds, 1+int(seed%20), noClient), 0, true
		for _, p := range parts {
			n += len(p.ops)
			ok = ok && porcupine.CheckOperations(lockModel(p.holder), p.ops)
		}
		whole := operations(holds, noClient)
		require.Len(t, whole, n)
		require.Equal(t, porcupine.CheckOperations(lockModel(""), whole), ok, "seed %d", seed)
		cuts += len(parts) - 1
		said[ok]++
	}
	require.Greater(t, cuts, 50)
	require.Greater(t, min(said[true], said[false]), 10)
	t.Logf("%d cuts, %v", cuts, said)
}

// long is a legal history of one name: one after the other holds it, and many
// wait, each since a random time.
func long(grants int) History {
	rnd := rand.New(rand.NewPCG(6, 6))
	var h History
	for i := range grants {
		token, end := fmt.Sprint("t", i), time.Duration(i*10+5)
		o := Op{Client: fmt.Sprint("c", i%12), Kind: Acquire, Name: "x", Token: token, Fence: uint64(i + 1), End: end, Outcome: OK}
		o.Start = max(0, end-time.Duration(rnd.IntN(120)))
		o.Until = end + 1000
		h = append(h, o)
		o.Kind, o.Start, o.End, o.Until, o.Fence = Release, end+5, end+7, 0, 0
		h = append(h, o)
		if i%10 == 0 {
			o.Kind, o.Token, o.Outcome = Acquire, "u"+token, Unknown
			h = append(h, o)
		}
	}
	return h
}

func TestLongHistory(t *testing.T) {
	v := Judge(long(10_000), Options{})
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, 10_000, v.Grants)
	require.Equal(t, 12, v.Clients)
}

// TestTimeout: forty that were granted in one call and were over at once have too
// many orders to try them all, and two that hold at once make sure that none is right.
func TestTimeout(t *testing.T) {
	var h History
	for i := range 40 {
		h = append(h, Op{Client: "c", Kind: Acquire, Name: "x", Token: fmt.Sprint("t", i), End: 100, Outcome: OK, Until: 1})
	}
	h = append(h, Op{Client: "c", Kind: Acquire, Name: "x", Token: "last", End: 100, Outcome: OK, Until: 200},
		Op{Client: "d", Kind: Acquire, Name: "x", Token: "other", Start: 100, End: 101, Outcome: OK, Until: 200})
	v := Judge(h, Options{Timeout: 20 * time.Millisecond})
	require.Contains(t, v.Rules(), RuleTimeout)
	require.False(t, v.OK())
}

func TestVisualize(t *testing.T) {
	legal := long(100)
	var page bytes.Buffer
	failing, err := Visualize(&page, legal, "x", 0)
	require.NoError(t, err)
	require.False(t, failing)
	require.Contains(t, page.String(), "<html")
	require.Contains(t, page.String(), "acquire unknown", "what the model leaves out is not shown")

	bad := append(long(2000), Op{Client: "evil", Kind: Acquire, Name: "x", Token: "second", Start: 10_006, End: 10_008, Outcome: OK, Until: 10_009})
	page.Reset()
	failing, err = Visualize(&page, bad, "x", 0)
	require.NoError(t, err)
	require.True(t, failing)
	require.Contains(t, page.String(), "evil")
	require.Less(t, strings.Count(page.String(), "acquire"), 1000, "the page shows more than the piece that fails")

	for _, h := range []History{nil, {{Client: "c", Kind: Acquire, Name: "x", Outcome: Failed}}} {
		page.Reset()
		failing, err = Visualize(&page, h, "x", 0)
		require.NoError(t, err)
		require.False(t, failing)
	}
}

func TestLinearizableNamesTheOneThatDoesNotFit(t *testing.T) {
	bad := append(long(2000), Op{Client: "evil", Kind: Acquire, Name: "x", Token: "second", Start: 10_006, End: 10_008, Outcome: OK, Until: 10_009})
	found := Linearizable(bad, 0)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Text, "evil")
	require.True(t, slices.ContainsFunc(found[0].Ops, func(o Op) bool { return o.Client == "evil" }))
	require.Equal(t, time.Duration(10_008), found[0].At)
}
