package report

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

const ms = time.Millisecond

// lock is what a client does with a lock: take it, maybe extend it, give it back.
func lock(client, name string, n int, from, to time.Duration, extend bool) []judge.Op {
	tok := fmt.Sprintf("%s-%d", client, n)
	op := func(kind judge.Kind, start, end, until time.Duration) judge.Op {
		return judge.Op{
			Client: client, Kind: kind, Name: name, Token: tok, Start: start, End: end, Outcome: judge.OK, Until: until,
		}
	}
	ops := []judge.Op{op(judge.Acquire, from-3*ms, from, from+900*ms)}
	ops[0].Fence = uint64(n)
	if extend {
		ops = append(ops, op(judge.Extend, from+400*ms, from+402*ms, from+1400*ms))
	}
	return append(ops, op(judge.Release, to, to+2*ms, 0))
}

// small is a run of a few seconds that has one of everything.
func small() Run {
	r := Run{
		Title: "Nightly chaos", Seed: 20260101, Profile: "mixed", Nodes: 5, Clients: 4,
		TTL: time.Second, Took: 12345 * ms, To: 10 * time.Second,
		Command: "redlock-chaos run \\\n\t--seed 20260101 --profile mixed",
		Faults: []Fault{
			{0, "redis-0", "partition", 1000 * ms, 4 * time.Second},
			{0, "redis-0", "kill", 3 * time.Second, 3 * time.Second},
			{2, "redis-2", "clock jump +500ms", 6 * time.Second, 6200 * ms},
			{-1, "c2", "pause", 5 * time.Second, 7500 * ms},
		},
		Latency: []Latency{
			{"acquire", 12, 1234567, 45678901, 123456789},
			{"release", 11, 456789, 2345678, 3456789},
		},
	}
	n := 0
	for i, name := range []string{"orders", "stock:7"} {
		for at := 200 * ms; at < 9*time.Second; at += 1100 * ms {
			n++
			r.Ops = append(r.Ops, lock(fmt.Sprintf("c%d", n%3+1), name, n, at, at+time.Duration(300+i*400)*ms, i == 1)...)
		}
	}
	r.Ops = append(r.Ops, lock("c10", "orders", n+1, 5900*ms, 6100*ms, false)...)
	r.Ops = append(r.Ops, judge.Op{
		Client: "c10", Kind: judge.Acquire, Name: "orders", Start: 7 * time.Second, End: 7200 * ms, Outcome: judge.Unknown,
	})
	r.Verdict = judge.Judge(r.Ops, judge.Options{TTL: r.TTL})
	return r
}

// held is the small run without what was wrong in it.
func held() Run {
	r := small()
	ops := r.Ops[:0]
	for _, o := range r.Ops {
		if o.Client != "c10" {
			o.Fence = 0
			ops = append(ops, o)
		}
	}
	r.Ops, r.Verdict = ops, judge.Judge(ops, judge.Options{TTL: r.TTL})
	return r
}

// random is a history that no lock need have made.
func random(seed uint64, n int) []judge.Op {
	rng := rand.New(rand.NewPCG(seed, 1))
	at := func() time.Duration { return time.Duration(rng.IntN(3000)) * ms }
	ops := make([]judge.Op, n)
	for i := range ops {
		o := &ops[i]
		o.Start = at()
		o.End = o.Start + time.Duration(rng.IntN(50))*ms
		o.Client, o.Name = fmt.Sprintf("c%d", rng.IntN(4)), fmt.Sprintf("n%d", rng.IntN(3))
		o.Token = fmt.Sprintf("t%d", rng.IntN(n))
		o.Kind = []judge.Kind{judge.Acquire, judge.Acquire, judge.Extend, judge.Release, judge.Lost, judge.Check}[rng.IntN(6)]
		o.Outcome = []judge.Outcome{judge.OK, judge.OK, judge.OK, judge.Failed, judge.Unknown}[rng.IntN(5)]
		o.Until = o.Start + time.Duration(rng.IntN(200))*ms
	}
	return ops
}
