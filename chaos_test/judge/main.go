// Command judge reads the histories that lock clients wrote (package history)
// and says whether the lock did what it promises: no two holders of one name at
// any moment, no acquisition that failed where it should have waited or that a
// sick node held up, progress, and nothing left behind by a client.
//
//	judge [-node-timeout 100ms] [-slack 1s] [-waiting] [-max-gap 3s] [-min-grants 1] HISTORY.jsonl…
//
// It shares no code with the lock. Exit status: 0 acquitted, 1 condemned, 64 usage.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redlock-go/redlock/chaos_test/history"
)

const (
	exitAcquitted = 0
	exitCondemned = 1
	exitUsage     = 64
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program without its process.
func run(args []string, stdout, stderr io.Writer) int {
	var r rules
	fs := flag.NewFlagSet("judge", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&r.nodeTimeout, "node-timeout", 250*time.Millisecond, "the clients' node timeout")
	fs.DurationVar(&r.slack, "slack", time.Second, "what a busy machine may add to it")
	fs.BoolVar(&r.waiting, "waiting", false, "the clients waited, so nothing may fail before the end of the run")
	fs.DurationVar(&r.maxGap, "max-gap", 0, "longest time without any grant (0: not judged)")
	fs.IntVar(&r.minGrants, "min-grants", 1, "fewest grants of the whole run")
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	if fs.NArg() == 0 {
		fmt.Fprintln(stderr, "judge: give the histories of one run")
		return exitUsage
	}
	histories := make(map[string][]history.Record)
	for _, path := range fs.Args() {
		recs, err := load(path)
		if err != nil {
			// What cannot be read cannot be acquitted.
			fmt.Fprintf(stdout, "CONDEMNED: %s: %v\n", path, err)
			return exitCondemned
		}
		histories[path] = recs
	}
	v := judge(histories, r)
	v.print(stdout)
	if len(v.charges) > 0 {
		return exitCondemned
	}
	return exitAcquitted
}

func load(path string) ([]history.Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Read(f)
}
