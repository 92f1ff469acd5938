package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/redlock-go/redlock/internal/attack"
	"github.com/redlock-go/redlock/internal/report"
)

// write writes the page of a run.
func (c *chaosCmd) write(w io.Writer, out *attack.Result) error {
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	r := report.Run{
		Title: fmt.Sprintf("redlock chaos on %d %s", out.Nodes, out.Kind), Seed: out.Seed, Profile: string(out.Profile),
		Nodes: out.Nodes, Clients: out.Clients, TTL: time.Duration(out.TTLMillis) * time.Millisecond,
		Took: ms(out.Seconds * 1000), Ops: out.History, Verdict: out.Judged, Command: c.again(out),
	}
	for _, l := range []struct {
		name string
		attack.Latency
	}{{"hand-over: from a release to the next grant", out.Handover}, {"loss: from the end of a lease that was not released to the next grant", out.Loss}} {
		r.Latency = append(r.Latency, report.Latency{Name: l.name, Count: l.Count, P50: ms(l.P50), P99: ms(l.P99), Max: ms(l.Max)})
	}
	for _, f := range out.Faults {
		from := time.Duration(f.AtMillis) * time.Millisecond
		one := report.Fault{Node: -1, Target: f.Client, Kind: string(f.Kind), From: from, To: from + time.Duration(f.Millis)*time.Millisecond}
		if len(f.Hit) == 0 {
			r.Faults = append(r.Faults, one)
		}
		for _, i := range f.Hit {
			one.Node, one.Target = i, out.NodeNames[i]
			r.Faults = append(r.Faults, one)
		}
	}
	return report.Write(w, r)
}

// again is the command that makes the same faults once more. A user's nodes are
// not named: their addresses may bear passwords, and the page is for others.
func (c *chaosCmd) again(out *attack.Result) string {
	where := fmt.Sprintf("redlock chaos --self-hosted %d", out.Nodes)
	if c.SelfHosted == 0 && out.Theirs {
		where = "redlock --nodes … chaos"
	}
	return fmt.Sprintf("%s --for %v --profile %s --seed %d --clients %d", where, time.Duration(c.For), out.Profile, out.Seed, out.Clients)
}
