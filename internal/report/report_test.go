package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

var update = flag.Bool("update", false, "write the golden pages anew")

// write makes the page, and holds it to what every page must be.
func write(t *testing.T, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	wellFormed(t, out)
	if strings.Contains(out, "ZgotmplZ") {
		t.Error("html/template refused a value")
	}
	return out
}

var (
	alien   = regexp.MustCompile(`(?i)^(link|base|i?frame|img|image|use|object|embed|audio|video|foreignObject|form|input|b)$`)
	fetches = regexp.MustCompile(`(?i)^(src|srcset|action|formaction|data|background|style|on.*)$`)
)

// wellFormed is stricter than HTML asks: the page is XML too, so that every tag
// is closed where it was opened. It also looks for ids given twice, for links
// that lead nowhere, and for what would be fetched or run.
func wellFormed(t *testing.T, out string) {
	t.Helper()
	ids, links := make(map[string]int), make(map[string]bool)
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		e, ok := tok.(xml.StartElement)
		if ok && alien.MatchString(e.Name.Local) {
			t.Errorf("a <%s> in the page", e.Name.Local)
		}
		for i := 0; ok && i < len(e.Attr); i++ {
			switch a := e.Attr[i]; a.Name.Local {
			case "id":
				ids[a.Value]++
			case "href":
				if !strings.HasPrefix(a.Value, "#") {
					t.Errorf("a link to %q", a.Value)
				}
				links[strings.TrimPrefix(a.Value, "#")] = true
			case "aria-labelledby", "aria-describedby":
				links[a.Value] = true
			default:
				if fetches.MatchString(a.Name.Local) {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q is there %d times", id, n)
		}
	}
	for l := range links {
		if ids[l] == 0 {
			t.Errorf("nothing has the id %q, to which a link leads", l)
		}
	}
}

func TestGolden(t *testing.T) {
	for name, r := range map[string]Run{"violated": small(), "held": held(), "empty": {}} {
		t.Run(name, func(t *testing.T) {
			got := write(t, r)
			file := filepath.Join("testdata", name+".html")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the page differs from %s; look at it, then go test -update", file)
			}
			if again := write(t, r); again != got {
				t.Error("the same run makes two pages")
			}
		})
	}
}

func TestPageSays(t *testing.T) {
	bad, good, empty := write(t, small()), write(t, held()), write(t, Run{})
	for want, page := range map[string]string{
		"Exclusion violated":     bad,
		"17 grants by 4 clients": bad,
		`href="#v1"`:             bad,
		`href="#m1"`:             bad,
		`class="hold c3 bad"`:    bad,
		"fault #3 on node 2":     bad,
		"node 4":                 bad, // had no fault
		"client c2":              bad,
		"    --seed 20260101":    bad,
		`<html lang="en">`:       good,
		"Exclusion held":         good,
		"No two clients held a lock at once, and no": good,
		"<p>None.</p>":  good,
		"45.7ms":        good,
		"Nothing shown": empty,
		"Not measured.": empty,
		"<title>Nothing shown – Chaos run</title>": empty,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(good, `class="mark" id`) || strings.Contains(good, "violated") {
		t.Error("a page of a good run shows a violation")
	}
}

func TestNothingFromOutside(t *testing.T) {
	for _, what := range []string{"http:", "https:", "url(", "@import", "fetch(", "import(", "<!--"} {
		if strings.Contains(pageText, what) {
			t.Errorf("%q in the template", what)
		}
	}
}

func TestHeadline(t *testing.T) {
	for _, c := range []struct {
		want, class string
		grants      int
		rules       []string
	}{
		{"Exclusion held", "ok", 1, nil},
		{"Nothing shown", "unsure", 0, nil},
		{"Exclusion violated", "bad", 1, []string{judge.RuleLeftover, judge.RuleOverlap}},
		{"Exclusion violated", "bad", 1, []string{judge.RulePorcupine}},
		{"Exclusion violated", "bad", 1, []string{judge.RuleTimeout, judge.RuleOverlap}},
		{"Exclusion not shown", "unsure", 1, []string{judge.RuleTimeout}},
		{"Exclusion not shown", "unsure", 1, []string{judge.RuleProgress, judge.RuleMalformed}},
		{"Exclusion held, other rules broken", "bad", 1, []string{judge.RuleTrust, judge.RuleTrust}},
		{"Exclusion held, other rules broken", "bad", 1, []string{"a rule of tomorrow"}},
	} {
		r := Run{Verdict: judge.Verdict{Grants: c.grants}}
		for _, rule := range c.rules {
			r.Verdict.Violations = append(r.Verdict.Violations, judge.Violation{Rule: rule})
		}
		if h := newHeadline(&r); h.Word != c.want || h.Class != c.class {
			t.Errorf("%v: %q (%s), want %q (%s)", c.rules, h.Word, h.Class, c.want, c.class)
		}
		write(t, r)
	}
}

func TestHostileTexts(t *testing.T) {
	for _, evil := range []string{
		"</script><b>", "</title></svg><img src=x onerror=alert(1)>", `" onload="alert(1)`, "' x='", "{{.Title}}", "<!--", "]]>",
		"javascript:alert(1)", "\x00\x01\xff\xfe", "a\u202eb\u2066c", "\ufffe\U0010ffff", "&amp;&#0;", strings.Repeat("\u2028", 4096),
	} {
		op := judge.Op{
			Client: evil, Kind: judge.Acquire, Name: evil, Token: evil, Start: 1, End: 2, Outcome: judge.OK, Until: time.Second,
		}
		r := Run{
			Title: evil, Profile: evil, Command: evil, Nodes: 1, Ops: []judge.Op{op},
			Faults:  []Fault{{0, evil, evil, 1, 2}, {-1, evil, evil, 1, time.Second}},
			Latency: []Latency{{Name: evil}},
			Verdict: judge.Verdict{Violations: []judge.Violation{{Rule: evil, Name: evil, At: 5, Ops: []judge.Op{op}, Text: evil}}},
		}
		out := write(t, r)
		for _, raw := range []string{"<b>", "<img", "onload=\"", "</script><b", "\u202e", "\u2028", "\x00"} {
			if strings.Contains(out, raw) {
				t.Errorf("%.40q: %q stands in the page as it is", evil, raw)
			}
		}
		if n := strings.Count(out, "<script"); n != 1 {
			t.Errorf("%.40q: %d scripts", evil, n)
		}
		if len(out) > 100_000 {
			t.Errorf("%.40q: a page of %d bytes", evil, len(out))
		}
	}
}

func TestExtremes(t *testing.T) {
	const far = time.Duration(math.MaxInt64)
	op := judge.Op{Client: "c", Kind: judge.Acquire, Name: "n", Token: "t", End: far, Outcome: judge.OK, Until: far}
	for name, r := range map[string]Run{
		"backwards":      {From: far, To: 1, Ops: []judge.Op{op}},
		"all of time":    {To: far, Ops: []judge.Op{op}, Nodes: math.MaxInt, Faults: []Fault{{0, "", "", -far - 1, far}, {math.MinInt, "", "", far, far}}},
		"before time":    {From: -far - 1, To: -far, TTL: -far - 1, Took: far},
		"one nanosecond": {From: 7, To: 8, Ops: []judge.Op{{Kind: judge.Acquire, Name: "n", Start: 7, End: 7, Outcome: judge.OK, Until: 8}}},
		"no names":       {Ops: make([]judge.Op, 10), Faults: make([]Fault, 10), Latency: make([]Latency, 1)},
		"violation off":  {To: 1, Verdict: judge.Verdict{Violations: []judge.Violation{{Name: "n", At: far}, {Name: "m", At: -1}, {}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if out := write(t, r); strings.Contains(out, "NaN") || strings.Contains(out, "Inf%") {
				t.Error("a number that is none")
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteTellsOfErrors(t *testing.T) {
	if err := Write(broken{}, Run{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}
