package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/attack"
)

// chaosCmd attacks the lock and has the judge look at what its clients saw.
type chaosCmd struct {
	SelfHosted int      `help:"Start so many redis-servers and attack them; 5 without --nodes. With --nodes only the way to the nodes is attacked, from here." default:"0" placeholder:"N" name:"self-hosted"`
	For        duration `help:"How long; the last seconds are without faults." default:"60s" placeholder:"60s"`
	Profile    string   `help:"assume: a minority fails at a time, and no rule may be broken. beyond: majorities forget under clients without quarantine, and the judge has to see it." enum:"assume,beyond" default:"assume" placeholder:"assume"`
	Seed       *uint64  `help:"Decides what fails when; drawn, and printed, if it is not given." placeholder:"N"`
	Clients    int      `help:"Client processes, of four workers each." default:"4" placeholder:"4"`
	HTML       string   `help:"Write a page that shows who held what while which fault was on." placeholder:"FILE" name:"html"`
	Keep       string   `help:"Where the history goes if a rule was broken; a new temporary folder by default." placeholder:"DIR"`
}

// config is what the flags ask for.
func (c *chaosCmd) config(a *app) (attack.Config, error) {
	if err := a.chooseField(&c.SelfHosted); err != nil {
		return attack.Config{}, err
	}
	cfg := attack.Config{
		Clients: c.Clients, For: time.Duration(c.For), Profile: attack.Profile(c.Profile),
		NodeTimeout: time.Duration(a.flags.NodeTimeout), Dir: c.Keep, Nodes: c.SelfHosted,
	}
	var err error
	if cfg.URLs, err = a.urls(); err != nil {
		return cfg, err
	}
	if cfg.Nodes == 0 && len(cfg.URLs) == 0 {
		cfg.Nodes = 5
	}
	if c.Seed != nil {
		cfg.Seed = *c.Seed
	} else {
		cfg.Seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	n := max(cfg.Nodes, len(cfg.URLs))
	switch {
	case c.SelfHosted != 0 && (n < 3 || n > 15):
		return cfg, &usageError{fmt.Sprintf("--self-hosted %d must be from 3 to 15", c.SelfHosted)}
	case n < 3 || n > 15:
		return cfg, &usageError{fmt.Sprintf("a minority has to fail, so chaos needs 3 to 15 nodes, not %d", n)}
	case cfg.Profile == attack.Beyond && len(cfg.URLs) > 0:
		return cfg, &usageError{"--profile beyond makes a majority of the nodes forget, so it is for --self-hosted only"}
	case cfg.For < 2*time.Second || cfg.For > 24*time.Hour:
		return cfg, &usageError{fmt.Sprintf("--for %v must be from 2s to 24h", cfg.For)}
	case c.Clients < 1 || c.Clients > 64:
		return cfg, &usageError{fmt.Sprintf("--clients %d must be from 1 to 64", c.Clients)}
	}
	return cfg, nil
}

// Run is for kong.
func (c *chaosCmd) Run(a *app) error {
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	var page *os.File
	if c.HTML != "" { // where it cannot be written is told before the attack
		if page, err = os.Create(c.HTML); err != nil {
			return err
		}
		defer page.Close()
	}
	// An interrupt still ends what was started, and takes away what was written.
	ctx, stop := signal.NotifyContext(a.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if terminal(a.rawStderr) >= 0 && !a.flags.JSON {
		cfg.Progress = func(s attack.Snapshot) { fmt.Fprint(a.stderr, "\r\x1b[K", bar(s)) }
		defer fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	out, err := attack.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if cfg.Progress != nil {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	if page != nil {
		if err := errors.Join(c.write(page, &out), page.Close()); err != nil {
			return err
		}
	}
	if a.flags.JSON {
		err = a.printJSON(&out)
	} else {
		c.print(a, &out)
	}
	if err == nil && !out.AsExpected() {
		return exitError(exitFailed)
	}
	return err
}

// bar is the progress as one line.
func bar(s attack.Snapshot) string {
	const width = 24
	full := min(width, int(width*s.Elapsed/max(s.For, 1)))
	line := fmt.Sprintf("%s%s %3.0f of %.0f s, %s: %d grants, %d faults", strings.Repeat("█", full), strings.Repeat("░", width-full),
		s.Elapsed.Seconds(), s.For.Seconds(), s.Phase, s.Grants, s.Faults)
	if s.Active > 0 {
		line += fmt.Sprintf(" (%d now)", s.Active)
	}
	return line
}

// verdict is the result in a sentence.
func verdict(out *attack.Result) string {
	switch {
	case out.Profile == attack.Beyond && out.AsExpected():
		return fmt.Sprintf("as it should be: with the assumptions broken, %d violations were seen", len(out.Violations))
	case out.Profile == attack.Beyond:
		return "NOT as it should be: the assumptions were broken, and the judge saw no violation"
	case out.Verdict == attack.Nothing:
		return "NOTHING SHOWN: nobody was granted a lock, so no rule could be broken"
	case out.AsExpected():
		return "no violation"
	}
	return fmt.Sprintf("VIOLATED: %d violations", len(out.Violations))
}

// maxSaid is how many violations are printed: one bug makes thousands.
const maxSaid = 10

// print is the closing table.
func (c *chaosCmd) print(a *app, out *attack.Result) {
	progress := "a name was granted in time once the faults were over"
	if !out.ProgressJudged {
		progress = "not judged, too short"
	}
	latency := func(l attack.Latency) string {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d)", l.P50, l.P99, l.Count)
	}
	a.table([][]string{
		{"nodes", fmt.Sprintf("%d %s", out.Nodes, out.Kind)},
		{"clients", fmt.Sprintf("%d processes of %d workers, %d names, TTL %d ms", out.Clients, out.Workers, out.Names, out.TTLMillis)},
		{"profile", fmt.Sprintf("%s, seed %d, %.1f s", out.Profile, out.Seed, out.Seconds)},
		{"faults", fmt.Sprint(len(out.Faults), kinds(out.Faults))},
		{"operations", fmt.Sprintf("%d, of unknown outcome %d", out.Ops, out.Unknowns)},
		{"grants", fmt.Sprintf("%d, %.1f a second; %d ended before their release", out.Grants, out.GrantsPerSec, out.Losses)},
		{"handed over in", latency(out.Handover)},
		{"after a loss in", latency(out.Loss)},
		{"quiet end", fmt.Sprintf("%.1f s: %s", out.QuietSeconds, progress)},
		{"verdict", verdict(out)},
	})
	for i := range out.Violations {
		if i == maxSaid {
			fmt.Fprintf(a.stdout, "  and %d more\n", len(out.Violations)-i)
			break
		}
		fmt.Fprintf(a.stdout, "  %s: %s\n", out.Violations[i].Rule, out.Violations[i].Text)
	}
	if out.Kept != "" {
		fmt.Fprintln(a.stdout, "the history is in", out.Kept)
	}
	if c.HTML != "" {
		fmt.Fprintln(a.stdout, "the page is", c.HTML)
	}
}

// kinds counts the faults by their kinds, in the order in which those came.
func kinds(faults []attack.FaultRecord) string {
	var order []attack.Kind
	count := make(map[attack.Kind]int)
	for _, f := range faults {
		if count[f.Kind]++; count[f.Kind] == 1 {
			order = append(order, f.Kind)
		}
	}
	var parts []string
	for _, k := range order {
		parts = append(parts, fmt.Sprintf("%d %s", count[k], k))
	}
	return ": " + strings.Join(parts, ", ")
}
