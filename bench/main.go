// Command bench measures this library against a hand-written floor and against
// redsync, on redis-servers that it starts on loopback. README.md says what the
// columns mean.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"
)

func main() {
	if childMain() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line.
type options struct {
	rounds, pairs, nodes int
	scenarios, impls     string
	json, cpu, mem       string
	hung, full, long     bool
	capacity             bool
	only, implementation *regexp.Regexp
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", fullRounds, "rounds; fewer than 7 prove nothing")
	f.IntVar(&o.pairs, "n", 0, "pairs a round and implementation in S1; the other scenarios scale along (default 400; with -full 1000)")
	f.IntVar(&o.nodes, "nodes", 0, "only the scenarios' parts with so many nodes; 0: all of them")
	f.StringVar(&o.scenarios, "run", "", "regular expression of the scenarios to run, as S1|S2")
	f.StringVar(&o.impls, "impl", "", "regular expression of the implementations to run; without the floor there are no ratios")
	f.StringVar(&o.json, "json", "", "write every value of every round to this file")
	f.StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile of the whole run to this file")
	f.StringVar(&o.mem, "memprofile", "", "write a profile of every allocation to this file; it makes the run slow")
	f.BoolVar(&o.hung, "hung", false, "also measure one pair of redsync's defaults in S4: half a minute")
	f.BoolVar(&o.full, "full", false, "all scenarios at all numbers of nodes, -hung, and more pairs: about half an hour")
	f.BoolVar(&o.long, "long", false, "the long scenarios of this library instead: three minutes")
	f.BoolVar(&o.capacity, "capacity", false, "what an acquisition, a renewal and a lease cost a node, instead: a quarter of a minute")
	err := f.Parse(args)
	o.hung = o.hung || o.full
	switch {
	case o.pairs != 0:
	case o.full:
		o.pairs = 1000
	default:
		o.pairs = 400
	}
	if err == nil && (o.rounds < 1 || o.pairs < 1 || f.NArg() > 0) {
		err = errors.New("bench: -rounds and -n must be at least 1, and there are no arguments")
		_, _ = fmt.Fprintln(stderr, err)
	}
	if err != nil {
		return nil, err
	}
	var errs [2]error
	o.only, errs[0] = regexp.Compile(o.scenarios)
	o.implementation, errs[1] = regexp.Compile(o.impls)
	if err = errors.Join(errs[:]...); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	return &o, err
}

// run is the program. It ends with 1 when a run was not correct or could not
// be made; a target that was missed is no failure of the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	quiet()
	if o.capacity {
		return runCapacity(ctx, stdout, stderr)
	}
	p := newPlan(o.rounds, o.pairs)
	p.nodes, p.hung, p.full, p.long.only, p.progress = o.nodes, o.hung, o.full, o.long, stderr
	p.makers = slices.DeleteFunc(p.makers, func(m maker) bool { return !o.implementation.MatchString(m.name) })
	stop, err := o.profile()
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	start := time.Now()
	records, err := p.runAll(ctx, o.only)
	err = errors.Join(err, stop())
	_, _ = fmt.Fprintf(stdout, "%s, %d CPUs shared with the servers, %d rounds of %d pairs, %.0f s\n\n",
		runtime.Version(), runtime.NumCPU(), p.rounds, p.pairs, time.Since(start).Seconds())
	missed := printTable(stdout, &p, records)
	_, _ = fmt.Fprintf(stdout, "\n%d targets missed. Values are medians over the rounds (worst, for what must not be); "+
		"ratios are taken within a round. Reached: within 5 %%.\n", missed)
	bad := problems(stdout, records)
	if o.json != "" {
		err = errors.Join(err, writeJSON(o.json, &p, records))
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
	}
	if err != nil || bad > 0 {
		return 1
	}
	return 0
}

// runAll runs the scenarios that only matches.
func (p *plan) runAll(ctx context.Context, only *regexp.Regexp) (all []*record, err error) {
	list := scenarios()
	if p.long.only {
		list = longScenarios()
	}
	for _, s := range list {
		if !only.MatchString(s.id) {
			continue
		}
		sizes := s.sizes
		if p.full {
			sizes = slices.Sorted(slices.Values(slices.Concat(sizes, s.more)))
		}
		for _, n := range sizes {
			if p.nodes > 0 && p.nodes != n {
				continue
			}
			if ctx.Err() != nil {
				return all, ctx.Err()
			}
			_, _ = fmt.Fprintf(p.progress, "%s N=%d: %s …\n", s.id, n, s.about)
			r, err := s.run(ctx, p, n)
			if err != nil {
				return all, fmt.Errorf("%s N=%d: %w", s.id, n, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// profile starts what was asked for; what it returns ends it.
func (o *options) profile() (stop func() error, err error) {
	var cpu *os.File
	if o.cpu != "" {
		if cpu, err = os.Create(o.cpu); err != nil {
			return nil, err
		}
		if err = pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	if o.mem != "" {
		runtime.MemProfileRate = 1
	}
	return func() (err error) {
		if cpu != nil {
			pprof.StopCPUProfile()
			err = cpu.Close()
		}
		if o.mem == "" {
			return err
		}
		mem, e := os.Create(o.mem)
		if e != nil {
			return errors.Join(err, e)
		}
		return errors.Join(err, pprof.Lookup("allocs").WriteTo(mem, 0), mem.Close())
	}, nil
}
