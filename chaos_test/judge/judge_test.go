package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos_test/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = int64(time.Millisecond)

// Times in these histories are milliseconds; the run is from 1 s to 21 s.
const runBegin, runEnd = 1000, 21000

func begun(client string) history.Record {
	return history.Record{Kind: history.Begin, Client: client, At: runBegin * ms, End: runEnd * ms}
}

func closed(client string, base, left int) history.Record {
	return history.Record{Kind: history.Close, Client: client, At: runEnd * ms, BaseGoroutines: base, Goroutines: left}
}

func held(client, name string, from, to int64) history.Record {
	return history.Record{
		Kind: history.Acquire, Client: client, Name: name, At: (from - 1) * ms, Acquired: from * ms, Released: to * ms, Result: history.OK,
	}
}

func failed(client string, from, to int64) history.Record {
	return history.Record{
		Kind: history.Acquire, Client: client, Name: "n", At: from * ms, End: to * ms, Result: history.Failed, Error: "no quorum",
	}
}

// whole puts a begin and an end around records of one client.
func whole(client string, recs ...history.Record) []history.Record {
	return append(append([]history.Record{begun(client)}, recs...), closed(client, 4, 4))
}

func with(r history.Record, change func(*history.Record)) history.Record {
	change(&r)
	return r
}

var testRules = rules{nodeTimeout: 100 * time.Millisecond, slack: 400 * time.Millisecond, minGrants: 1}

// verdictCase is a history and what the judge has to say of it.
type verdictCase struct {
	rules rules
	files map[string][]history.Record
	want  string // part of the only charge; "" = acquitted
}

func (c verdictCase) run(t *testing.T) {
	t.Helper()
	v := judge(c.files, c.rules)
	switch {
	case c.want == "" && len(v.charges) > 0:
		t.Errorf("condemned: %q, want an acquittal", v.charges)
	case c.want != "" && len(v.charges) != 1:
		t.Errorf("charges %q, want one with %q", v.charges, c.want)
	case c.want != "" && !strings.Contains(v.charges[0], c.want):
		t.Errorf("charge %q, want %q", v.charges[0], c.want)
	}
}

func TestJudgeOverlaps(t *testing.T) {
	unknown := func(r *history.Record) { r.Result = history.Unknown }
	type files = map[string][]history.Record
	for name, c := range map[string]verdictCase{
		"one after the other": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), held("a", "n", 2200, 2300)), "b": whole("b", held("b", "n", 2100, 2200)),
		}, ""},
		"two names at once": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 3000)), "b": whole("b", held("b", "m", 2000, 3000)),
		}, ""},
		"overlap of two processes": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100)), "b": whole("b", held("b", "n", 2099, 2200)),
		}, "two holders of \"n\": a from"},
		"overlap by a nanosecond": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100)),
			"b": whole("b", with(held("b", "n", 2100, 2200), func(r *history.Record) { r.Acquired-- })),
		}, "(1ns together)"},
		"overlap within one client": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), held("a", "n", 2050, 2060)),
		}, "two holders"},
		"overlap with a long hold further back": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 9000)), "b": whole("b", with(held("b", "n", 2100, 2100), unknown), held("b", "n", 8000, 8001)),
		}, "two holders"},
		"overlap written in the wrong order": {testRules, files{
			"a": whole("a", held("a", "n", 5000, 6000), held("a", "n", 2000, 2100)), "b": whole("b", held("b", "n", 2050, 2200)),
		}, "two holders"},
		"a hold with an unknown release is a hold": {testRules, files{
			"a": whole("a", with(held("a", "n", 2000, 2100), unknown)), "b": whole("b", held("b", "n", 2050, 2200)),
		}, "two holders"},
		"a hold that was over before its holder could know": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100)),
			"b": whole("b", with(held("b", "n", 2050, 2040), func(r *history.Record) { r.Lost = true })),
		}, ""},
	} {
		t.Run(name, c.run)
	}
}

func TestJudgeProgressAndLeftovers(t *testing.T) {
	waiting, gap, many := testRules, testRules, testRules
	waiting.waiting = true
	gap.maxGap = 3 * time.Second
	many.minGrants = 3
	type files = map[string][]history.Record
	for name, c := range map[string]verdictCase{
		"fast failure": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), failed("a", 3000, 3500)),
		}, ""},
		"failure past the node timeout": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), failed("a", 3000, 3501)),
		}, "took 501ms to fail"},
		"failure where all wait": {waiting, files{
			"a": whole("a", held("a", "n", 2000, 2100), failed("a", 3000, 3001)),
		}, "though it was to wait"},
		"the end of the run ends a long wait": {waiting, files{
			"a": whole("a", held("a", "n", 2000, 2100), failed("a", 3000, runEnd+500)),
		}, ""},
		"but promptly": {waiting, files{
			"a": whole("a", held("a", "n", 2000, 2100), failed("a", 3000, runEnd+501)),
		}, "501ms after the end"},
		"grants without a gap": {gap, files{
			"a": whole("a", held("a", "n", 3000, 3100), held("a", "n", 6000, 6100), held("a", "n", 9000, 9100),
				held("a", "n", 12000, 12100), held("a", "n", 15000, 15100), held("a", "n", 18000, 18100)),
		}, ""},
		"a standstill": {gap, files{
			"a": whole("a", held("a", "n", 3000, 3100), held("a", "n", 6000, 6100), held("a", "n", 9000, 9100),
				held("a", "n", 12000, 12100), held("a", "n", 15001, 15100), held("a", "n", 18000, 18100)),
		}, "nothing was granted for 3.001s"},
		"a standstill at the end": {gap, files{
			"a": whole("a", held("a", "n", 3000, 3100), held("a", "n", 6000, 6100), held("a", "n", 9000, 9100),
				held("a", "n", 12000, 12100), held("a", "n", 15000, 15100)),
		}, "nothing was granted for 6s"},
		"too few grants":   {many, files{"a": whole("a", held("a", "n", 2000, 2100), held("a", "n", 2200, 2300))}, "2 grants, fewer than 3"},
		"no grant at all":  {testRules, files{"a": whole("a")}, "0 grants"},
		"client that died": {testRules, files{"a": whole("a", held("a", "n", 2000, 2100)), "b": {begun("b"), held("b", "n", 3000, 3100)}}, "the client died"},
		"goroutine left": {testRules, files{
			"a": {begun("a"), held("a", "n", 2000, 2100), closed("a", 4, 5)},
		}, "5 goroutines after Close, 4 before"},
		"a result that nobody knows": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), with(held("a", "n", 2200, 2300), func(r *history.Record) { r.Result = "fine" })),
		}, "a result \"fine\""},
		"a hold without a time": {testRules, files{
			"a": whole("a", held("a", "n", 2000, 2100), with(held("a", "n", 2200, 2300), func(r *history.Record) { r.Released = 0 })),
		}, "makes no sense"},
	} {
		t.Run(name, c.run)
	}
}

func TestEmptyRunIsNoAcquittal(t *testing.T) {
	if v := judge(nil, testRules); len(v.charges) == 0 {
		t.Error("nothing at all was acquitted")
	}
	if v := judge(map[string][]history.Record{"a": nil}, testRules); len(v.charges) == 0 {
		t.Error("an empty history was acquitted")
	}
}

// write makes a history file.
func write(t *testing.T, recs []history.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := history.NewWriter(f)
	for i := range recs {
		if err := w.Write(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitStatus(t *testing.T) {
	a := write(t, whole("a", held("a", "n", 2000, 2100)))
	after := write(t, whole("b", held("b", "n", 2100, 2200)))
	over := write(t, whole("b", held("b", "n", 2050, 2200)))
	torn := filepath.Join(t.TempDir(), "torn.jsonl")
	if err := os.WriteFile(torn, []byte(`{"kind":"begin","cl`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		exit int
		says string
	}{
		"acquitted": {[]string{a, after}, 0, "ACQUITTED"},
		"condemned": {[]string{"-node-timeout", "100ms", a, over}, 1, "overlaps of \"n\": 1"},
		"torn":      {[]string{a, torn}, 1, "CONDEMNED"},
		"missing":   {[]string{a, torn + "x"}, 1, "CONDEMNED"},
		"no file":   {nil, 64, ""},
		"no flag":   {[]string{"-nonsense", a}, 64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if got := run(c.args, &out, io.Discard); got != c.exit || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit %d with %q; want %d with %q", got, out.String(), c.exit, c.says)
			}
		})
	}
}

func TestLongReportIsCut(t *testing.T) {
	var recs []history.Record
	for range 100 {
		recs = append(recs, held("a", "n", 2000, 3000))
	}
	var out strings.Builder
	judge(map[string][]history.Record{"a": whole("a", recs...)}, testRules).print(&out)
	if n := strings.Count(out.String(), "CONDEMNED"); n != maxCharges+1 {
		t.Errorf("%d charges printed, want %d and one line for the rest", n, maxCharges)
	}
}
