package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestHelpIsGolden(t *testing.T) {
	for _, cmd := range []string{"", "demo", "run", "inspect", "break", "init", "check", "chaos"} {
		args := []string{"--help"}
		if cmd != "" {
			args = []string{cmd, "--help"}
		}
		r := call(t, []string{"REDLOCK_PASSWORD=S3CRET"}, args...)
		require.Equal(t, 0, r.code, r.err)
		require.NotContains(t, r.out, "S3CRET")
		file := filepath.Join("testdata", "help"+cmd+".txt")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(r.out), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), r.out, "redlock %s --help", cmd)
	}
}

func TestTTL05_ADurationNeedsItsUnit(t *testing.T) {
	for _, args := range [][]string{{"--ttl", "300", "check"}, {"--ttl", "1700000000", "check"}, {"--max-ttl", "x", "check"}} {
		r := call(t, nil, args...)
		require.Equal(t, 64, r.code)
		require.Contains(t, r.err, "unit")
	}
	require.Equal(t, 64, call(t, []string{"REDLOCK_TTL=300"}, "check").code)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"--nonsense"}, {"inspect"}, {"break", "x"}, {"check"}, {"demo", "--stock", "0"}, {"demo", "--buyers", "10"}, {"demo", "--self-hosted", "1"}} {
		r := call(t, nil, args...)
		require.Equal(t, 64, r.code, "%q: %s", args, r.err)
		require.True(t, strings.HasPrefix(r.err, "redlock: "), "%q: %s", args, r.err)
	}
	require.Equal(t, 78, call(t, nil, "--nodes", "127.0.0.1:1", "--ttl", "1ms", "check").code)
	require.Equal(t, 0, call(t, nil).code, "no arguments show the help")
}

func TestSplitNodes(t *testing.T) {
	for in, want := range map[string][]string{
		"a:1":                           {"a:1"},
		"a:1,b:2,[::1]:3":               {"a:1", "b:2", "[::1]:3"},
		"a:1, b:2":                      {"a:1", "b:2"},
		"a:1,b:2,":                      {"a:1", "b:2"},
		"redis://u:p,w@h:1,h2:2":        {"redis://u:p,w@h:1", "h2:2"},
		"redis://h:1/2,rediss://g:2":    {"redis://h:1/2", "rediss://g:2"},
		"redis+sentinel://a:1,b:2/name": {"redis+sentinel://a:1,b:2/name"},
		"redis+sentinel://a:1,b:2/n,redis+cluster://c:1,d:2?votes=3,redis://e:1": {"redis+sentinel://a:1,b:2/n", "redis+cluster://c:1,d:2?votes=3", "redis://e:1"},
		"unix:///a,b.sock,c:1": {"unix:///a,b.sock", "c:1"},
	} {
		require.Equal(t, want, splitNodes(in), in)
	}
}

func FuzzSplitNodes(f *testing.F) {
	for _, s := range []string{"a:1,b:2", "redis://u:p,w@h:1,h2:2", "redis+sentinel://a:1,b:2/n,c:1", ",,", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nodes := splitNodes(s)
		for i := range nodes {
			nodes[i] = strings.TrimSpace(nodes[i])
		}
		// Nothing is lost and nothing invented: only commas and outer space go.
		squeeze := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, ",", " ")), "") }
		if squeeze(strings.Join(nodes, ",")) != squeeze(s) {
			t.Fatalf("%q became %q", s, nodes)
		}
	})
}

func TestERR05_NoSecretIsShown(t *testing.T) {
	const secret = "S3CRET"
	for _, node := range []string{"redis://u:" + secret + "@127.0.0.1:1", "redis://u:" + secret + "@127.0.0.1:x", "redis://u:" + secret + "%zz@h:1", "rediss://:" + secret + "@127.0.0.1:1"} {
		for _, cmd := range [][]string{{"inspect", "x"}, {"check"}, {"init"}, {"run", "--wait", "0s", "x", "--", "true"}} {
			r := call(t, nil, append([]string{"--nodes", node}, cmd...)...)
			require.NotContains(t, r.out+r.err, secret, "%s %q", node, cmd)
			require.Contains(t, r.err, "warning: a password on the command line")
			r = call(t, []string{"REDLOCK_NODES=127.0.0.1:1", "REDLOCK_PASSWORD=" + secret}, cmd...)
			require.NotContains(t, r.out+r.err, secret)
			require.NotContains(t, r.err, "command line")
		}
	}
}

func TestCLI08_InspectAndBreak(t *testing.T) {
	f := newFleet(t)
	l, err := redlock.New(mustNodes(t, f), redlock.WithTTL(time.Second), redlock.WithMaxTTL(time.Second))
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, 1, call(t, f.env, "inspect", "job").code)
	lease, err := l.Acquire(t.Context(), "job", redlock.WithLabel("me@host"))
	require.NoError(t, err)
	r := call(t, f.env, "inspect", "job")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.out, lease.Token())
	require.Contains(t, r.out, "me@host")
	var s statusJSON
	require.NoError(t, json.Unmarshal([]byte(call(t, f.env, "--json", "inspect", "job").out), &s))
	require.Equal(t, "held", s.Verdict)
	require.Len(t, s.Nodes, 3)

	require.Equal(t, 64, call(t, f.env, "break", "job", "--token", lease.Token()).code, "without --yes")
	require.Equal(t, 75, call(t, f.env, "break", "job", "--token", "somebody else's", "--yes").code)
	require.NoError(t, lease.Err())
	require.Equal(t, 0, call(t, f.env, "break", "job", "--token", lease.Token(), "--yes").code)
	<-lease.Context().Done()
	require.ErrorContains(t, lease.Err(), "broken")
	f.free(t)
	require.Equal(t, 69, call(t, []string{"REDLOCK_NODES=127.0.0.1:1"}, "inspect", "job").code)
}

func mustNodes(t *testing.T, f *fleet) []redlock.Node {
	t.Helper()
	nodes, err := redlock.ParseNodes(splitNodes(strings.TrimPrefix(f.env[0], "REDLOCK_NODES="))...)
	require.NoError(t, err)
	return nodes
}

func TestCheckAndInit(t *testing.T) {
	f := newFleet(t)
	r := call(t, f.env, "check")
	require.Equal(t, 0, r.code, r.out)
	require.Equal(t, 0, call(t, f.env, "init").code, "may be repeated")
	require.NoError(t, f.servers[0].Restart(t.Context(), true))
	require.Equal(t, 1, call(t, f.env, "check").code)
	require.Empty(t, f.seal(t, 0), "check writes nothing")
	r = call(t, f.env, "init")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.err, "a node that forgot")
	require.Equal(t, 1, call(t, append(slices.Clone(f.env), "REDLOCK_MAX_TTL=2s"), "check").code)
	require.Equal(t, 78, call(t, append(slices.Clone(f.env), "REDLOCK_MAX_TTL=2s"), "init").code)
	require.Equal(t, 0, call(t, append(slices.Clone(f.env), "REDLOCK_MAX_TTL=2s"), "init", "--replace").code)
	require.Equal(t, 78, run(t, f.env, "run", "job", "--", "true").code, "clients of the old setting are told")
}
