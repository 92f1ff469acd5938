package chaos_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/attack"
	"github.com/redlock-go/redlock/internal/redisproc"
)

// attacked runs an attack on five servers of its own. A history that shows what
// should not be is kept, not removed with the test.
func attacked(t *testing.T, c attack.Config) attack.Result {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		missing(t, "%v", err)
	}
	c.Nodes = 5
	out, err := attack.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	t.Logf("seed %d: %d faults (%d left out), %d grants, %.1f a second, hand-over p50 %.1f ms p99 %.1f ms, %d operations, of unknown outcome %d",
		out.Seed, len(out.Faults), out.FaultsSkipped, out.Grants, out.GrantsPerSec, out.Handover.P50, out.Handover.P99, out.Ops, out.Unknowns)
	for _, f := range out.Faults {
		t.Logf("%6d ms, for %4d ms: %s %s%s %s", f.AtMillis, f.Millis, f.Kind, f.Node, f.Client, f.Error)
	}
	return out
}

var attackSeed = flag.Uint64("attack.seed", 1, "the schedule of TestAttackAssume")

// TestAttackAssume is three minutes of faults of a minority at a time.
func TestAttackAssume(t *testing.T) {
	out := attacked(t, attack.Config{For: 3 * time.Minute, Seed: *attackSeed})
	if !out.AsExpected() {
		t.Errorf("verdict %s; replay it with redlock chaos --self-hosted 5 --for 3m --seed %d; the history is in %s", out.Verdict, *attackSeed, out.Kept)
		for _, v := range out.Violations[:min(len(out.Violations), 5)] {
			t.Errorf("%s: %s", v.Rule, v.Text)
		}
	}
	if len(out.Faults) < 60 || out.Grants == 0 || !out.ProgressJudged {
		t.Errorf("%d faults, %d grants, progress judged: %v; that shows too little", len(out.Faults), out.Grants, out.ProgressJudged)
	}
}

// TestAttackBeyond breaks the assumptions: a judge that acquits that would
// acquit anything.
func TestAttackBeyond(t *testing.T) {
	dir := t.TempDir()
	out := attacked(t, attack.Config{For: 15 * time.Second, Seed: 1, Profile: attack.Beyond, Dir: dir})
	if !out.AsExpected() || out.Grants == 0 {
		t.Fatalf("verdict %s with %d grants: majorities forgot, and the judge saw nothing", out.Verdict, out.Grants)
	}
	rules := make(map[string]int)
	for _, v := range out.Violations {
		rules[v.Rule]++
	}
	t.Logf("violations: %v", rules)
	if rules["overlap"] == 0 || rules["porcupine"] == 0 {
		t.Errorf("violations %v: two holders at once break both rules", rules)
	}
	if rules["malformed"] > 0 {
		t.Errorf("%d malformed operations: the recorder is at fault", rules["malformed"])
	}
	for _, name := range []string{"history.jsonl", "result.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s was not kept: %v", name, err)
		}
	}
	if pages, _ := filepath.Glob(filepath.Join(dir, "*.html")); len(pages) == 0 {
		t.Error("no porcupine page was kept")
	}
}
