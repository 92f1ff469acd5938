package judge

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// header is what the comments of a file in testdata say.
type header struct {
	rules   []string // all that it breaks; none: acquitted
	options Options
}

func headerOf(t *testing.T, text []byte) header {
	t.Helper()
	var h header
	for line := range strings.Lines(string(text)) {
		if s, ok := strings.CutPrefix(line, "# rules:"); ok {
			for r := range strings.SplitSeq(s, ",") {
				h.rules = append(h.rules, strings.TrimSpace(r))
			}
		}
		if s, ok := strings.CutPrefix(line, "# options:"); ok {
			d := json.NewDecoder(strings.NewReader(s))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&h.options))
		}
	}
	slices.Sort(h.rules)
	return h
}

func TestFolder(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(t, err)
	seen, condemned, acquitted := make(map[string]bool), 0, 0
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			want := headerOf(t, text)
			h, err := Read(bytes.NewReader(text))
			require.NoError(t, err)
			v := Judge(h, want.options)
			t.Log(v)
			got := v.Rules()
			slices.Sort(got)
			require.Equal(t, want.rules, got)
			require.Equal(t, len(want.rules) == 0, v.OK())
			for _, x := range v.Violations {
				seen[x.Rule] = true
				require.NotEmpty(t, x.Name)
				require.NotEmpty(t, x.Ops)
				require.NotEmpty(t, x.Text)
			}
			switch {
			case strings.HasPrefix(name, "condemn-"):
				condemned++
				require.NotEmpty(t, want.rules, "name the rules in the first line")
			case strings.HasPrefix(name, "acquit-"):
				acquitted++
				require.Empty(t, want.rules)
			default:
				t.Fatal("neither condemn- nor acquit-")
			}
		})
	}
	require.GreaterOrEqual(t, condemned, 8)
	require.GreaterOrEqual(t, acquitted, 6)
	for _, r := range []string{RuleMalformed, RuleOverlap, RuleTrust, RuleFence, RuleLeftover, RuleProgress, RulePorcupine} {
		require.True(t, seen[r], "no history breaks %q", r)
	}
}
