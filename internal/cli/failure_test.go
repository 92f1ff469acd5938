package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFailureIsAnObjectWhereJSONWasAskedFor(t *testing.T) {
	dead := "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
	for _, c := range []struct {
		args   []string
		kind   string
		status int
	}{
		{[]string{"--json", "chaos", "--for", "1s"}, "usage", 64},
		{[]string{"chaos", "--nonsense", "--json"}, "usage", 64},
		{[]string{"--json", "--nodes", dead, "chaos", "--for", "2s"}, "no_quorum", 69},
		{[]string{"--json", "--nodes", dead, "init"}, "no_quorum", 69},
		{[]string{"--json", "--nodes", dead, "--ttl", "1ms", "inspect", "x"}, "config", 78},
		{[]string{"--json", "demo", "--stock", "0"}, "usage", 64},
		{[]string{"--json", "chaos", "--html", "/no/such/folder/x.html"}, "failed", 1},
	} {
		r := call(t, nil, c.args...)
		require.Equal(t, c.status, r.code, "%q: %s", c.args, r.err)
		require.NotRegexp(t, "(?m)^redlock: ", r.err, "%q: it is said once; what else is there is the log", c.args)
		var out failureJSON
		require.NoError(t, json.Unmarshal([]byte(r.out), &out), "%q: %s", c.args, r.out)
		require.Equal(t, c.kind, out.Error.Kind, "%q", c.args)
		require.Equal(t, c.status, out.Error.Status)
		require.NotEmpty(t, out.Error.Text)
	}
}

func TestRunKeepsItsCommandsOutputFreeOfFailures(t *testing.T) {
	r := call(t, nil, "--json", "--nodes", "127.0.0.1:1", "run", "x", "--wait", "0s", "--exit-no-quorum", "9", "--", "true")
	require.Equal(t, 9, r.code, r.err)
	require.Empty(t, r.out)
	var out failureJSON
	_, object, _ := strings.Cut(r.err, "{\n") // the log may be before and after
	require.NoError(t, json.NewDecoder(strings.NewReader("{"+object)).Decode(&out), r.err)
	require.Equal(t, 9, out.Error.Status, "as the process, moved by the flag")
}

func TestAFlagBeatsAVariable(t *testing.T) {
	nodes := "a:1,b:1,c:1"
	for _, c := range []struct {
		what   string
		env    []string
		args   []string
		hosted int // 0: the nodes
		fails  bool
	}{
		{what: "flag over variable", env: []string{"REDLOCK_NODES=" + nodes}, args: []string{"chaos", "--self-hosted", "3"}, hosted: 3},
		{what: "the other way round", env: []string{"REDLOCK_SELF_HOSTED=5"}, args: []string{"--nodes", nodes, "chaos"}},
		{what: "two flags", args: []string{"--nodes", nodes, "chaos", "--self-hosted", "3"}, fails: true},
		{what: "two variables", env: []string{"REDLOCK_NODES=" + nodes, "REDLOCK_SELF_HOSTED=5"}, args: []string{"chaos"}, fails: true},
		{what: "neither", args: []string{"chaos"}, hosted: 5},
	} {
		a, cmd := parse(t, c.env, c.args...)
		cfg, err := cmd.config(a)
		if c.fails {
			require.ErrorContains(t, err, "exclude each other", c.what)
			continue
		}
		require.NoError(t, err, c.what)
		require.Equal(t, c.hosted, cfg.Nodes, c.what)
		require.Equal(t, c.hosted == 0, len(cfg.URLs) == 3, c.what)
	}
}

// parse reads a command line of chaos without running it.
func parse(t *testing.T, env []string, args ...string) (*app, *chaosCmd) {
	t.Helper()
	a := &app{env: newEnvironment(env), flags: &grammar{}, stdout: t.Output(), stderr: t.Output()}
	p, err := a.parser()
	require.NoError(t, err)
	parsed, err := p.Parse(args)
	require.NoError(t, err)
	a.given = given(parsed)
	return a, &a.flags.Chaos
}
