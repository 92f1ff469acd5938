package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/attack"
)

// shown demands that a run showed what its profile is to show.
func shown(t *testing.T, r said) attack.Result {
	t.Helper()
	require.Equal(t, 0, r.code, "%s\n%s", r.err, r.out)
	var out attack.Result
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Positive(t, out.Grants)
	require.NotEmpty(t, out.Faults)
	return out
}

func TestChaosOnServersOfItsOwn(t *testing.T) {
	newFleet(t) // only to fail or skip where there is no redis-server
	page := filepath.Join(t.TempDir(), "chaos.html")
	r := run(t, nil, "--json", "chaos", "--for", "4s", "--seed", "5", "--clients", "2", "--html", page)
	out := shown(t, r)
	require.Equal(t, attack.Clean, out.Verdict)
	require.Equal(t, uint64(5), out.Seed)
	require.Equal(t, 5, out.Nodes)
	require.Empty(t, r.err)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "--self-hosted 5 --for 4s --profile assume --seed 5 --clients 2")
}

func TestChaosOnTheirNodes(t *testing.T) {
	f := newFleet(t)
	r := run(t, f.env, "chaos", "--for", "4s", "--clients", "2")
	require.Equal(t, 0, r.code, "%s\n%s", r.err, r.out)
	require.Contains(t, r.out, "no violation")
	require.Contains(t, r.out, "3 nodes of yours")
	for i := range f.servers {
		require.NotEmpty(t, f.seal(t, i), "their seal stands")
	}
}

func TestChaosBeyondIsSeen(t *testing.T) {
	newFleet(t)
	out := shown(t, run(t, nil, "--json", "chaos", "--self-hosted", "3", "--for", "8s", "--profile", "beyond", "--seed", "1"))
	require.Equal(t, attack.Violated, out.Verdict)
	require.NotEmpty(t, out.Violations)
}

func TestChaosRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"chaos", "--self-hosted", "2"},
		{"chaos", "--self-hosted", "16"},
		{"chaos", "--for", "1s"},
		{"chaos", "--for", "60"},
		{"chaos", "--clients", "0"},
		{"chaos", "--profile", "hope"},
		{"chaos", "--seed", "-1"},
		{"--nodes", "a:1,b:1", "chaos"},
		{"--nodes", "a:1,b:1,c:1", "chaos", "--self-hosted", "3"},
		{"--nodes", "a:1,b:1,c:1", "chaos", "--profile", "beyond"},
	} {
		r := call(t, nil, args...)
		require.Equal(t, 64, r.code, "%q: %s", args, r.err)
	}
	require.Equal(t, 1, call(t, nil, "chaos", "--html", "/no/such/folder/x.html").code, "told before the attack")
}
