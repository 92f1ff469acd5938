package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestPasswordsReachAddresses(t *testing.T) {
	p := passwords{node: "p/w +@1", sentinel: "s&=w"}
	for node, want := range map[string]string{
		"h:1":                                   "redis://:p%2Fw%20+%401@h:1",
		"h":                                     "redis://:p%2Fw%20+%401@h",
		"::1":                                   "redis://:p%2Fw%20+%401@[::1]",
		"[::1]:7":                               "redis://:p%2Fw%20+%401@[::1]:7",
		"u@h:1":                                 "redis://u:p%2Fw%20+%401@h:1",
		"u:mine@h:1":                            "u:mine@h:1",
		"redis://u:mine@h:1":                    "redis://u:mine@h:1",
		"redis://u@h:1/2":                       "redis://u:p%2Fw%20+%401@h:1/2",
		"rediss://h:1?server_name=x":            "rediss://:p%2Fw%20+%401@h:1?server_name=x",
		"unix:///run/r.sock?db=1":               "unix://:p%2Fw%20+%401@/run/r.sock?db=1",
		"unix:/run/r.sock":                      "unix://:p%2Fw%20+%401@/run/r.sock",
		"redis+cluster://h:1,g:2?votes=1":       "redis+cluster://:p%2Fw%20+%401@h:1,g:2?votes=1",
		"redis+sentinel://h:1,g:2/n":            "redis+sentinel://:p%2Fw%20+%401@h:1,g:2/n?sentinel_password=s%26%3Dw",
		"redis+sentinel://u@h,g/n?db=1":         "redis+sentinel://u:p%2Fw%20+%401@h,g/n?db=1&sentinel_password=s%26%3Dw",
		"sentinel://:a@h/n?sentinel_password=b": "sentinel://:a@h/n?sentinel_password=b",
	} {
		got := p.apply(node)
		require.Equal(t, want, got)
		if scheme, _ := cutScheme(node); scheme != "" || node == "h:1" {
			_, err := redlock.ParseNodes(got)
			require.NoError(t, err, node)
		}
		require.Equal(t, node, passwords{}.apply(node))
	}
	nodes, err := redlock.ParseNodes(p.apply("unix:/run/r.sock"), p.apply("u@h:1"))
	require.NoError(t, err)
	for i, user := range []string{"", "u"} {
		opt, _ := nodes[i].Options()
		require.Equal(t, user, opt.Username)
		require.Equal(t, p.node, opt.Password)
	}
}

func TestPasswordsComeFromVariablesAndFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("from file\n"), 0o600))
	got, err := environment{
		"REDLOCK_PASSWORD_FILE": file, "REDLOCK_PASSWORD": "x", "REDLOCK_SENTINEL_PASSWORD": "y",
	}.passwords()
	require.NoError(t, err)
	require.Equal(t, passwords{"from file", "y"}, got)
	got, err = environment{"REDLOCK_SENTINEL_PASSWORD_FILE": file}.passwords()
	require.NoError(t, err)
	require.Equal(t, passwords{"", "from file"}, got)
	for _, name := range []string{"REDLOCK_PASSWORD_FILE", "REDLOCK_SENTINEL_PASSWORD_FILE"} {
		r := call(t, []string{"REDLOCK_NODES=h:1", name + "=/no/such"}, "check")
		require.Equal(t, 64, r.code)
		require.Contains(t, r.err, name)
	}
}

func TestHasPassword(t *testing.T) {
	for _, text := range []string{
		"redis://u:p@h:1", "redis://:p@h", "u:p@h:1", ":p@h", "redis://u:p/w@h", "redis+sentinel://h/n?sentinel_password=p",
		"redis+sentinel://h/n?db=1&sentinel_password=p", "--nodes=redis://u:p@h",
	} {
		require.True(t, hasPassword(text), text)
	}
	for _, text := range []string{"redis://u@h:1", "h:1", "u@h:1", "[::1]:6379", "redis://[::1]:1", "unix:///a.sock", "redis+sentinel://h/n?sentinel_password="} {
		require.False(t, hasPassword(text), text)
	}
}

// Whatever way a password comes, nobody is told of it: not by errors, the log or the
// child's environment.
func TestERR05_NoSecretLeavesTheProcess(t *testing.T) {
	const secret = "S3CRET"
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	f := newFleet(t)
	up := strings.Join(f.addrs(), ",")
	for _, env := range [][]string{
		{"REDLOCK_NODES=" + up, "REDLOCK_PASSWORD=" + secret},
		{"REDLOCK_NODES=" + up, "REDLOCK_PASSWORD_FILE=" + file},
		{"REDLOCK_NODES=redis://u:" + secret + "@" + strings.ReplaceAll(up, ",", ",u:"+secret+"@")},
		{"REDLOCK_NODES=redis+sentinel://" + up + "/main", "REDLOCK_SENTINEL_PASSWORD=" + secret, "REDLOCK_PASSWORD=" + secret},
		{"REDLOCK_NODES=redis+sentinel://" + up + "/main?sentinel_password=" + secret},
		{"REDLOCK_NODES=redis+cluster://u:" + secret + "@" + up},
		{"REDLOCK_NODES=rediss://u:" + secret + "@" + f.servers[0].Addr()},
	} {
		for _, cmd := range [][]string{{"inspect", "x"}, {"check"}, {"--json", "check"}, {"init"}, {"run", "--wait", "0s", "x", "--", "env"}, {"--nonsense"}} {
			r := call(t, env, cmd...)
			require.NotContains(t, r.out+r.err, secret, "%v %q", env, cmd)
			require.NotEqual(t, 0, r.code, "%v %q: the credentials are wrong", env, cmd)
			require.NotContains(t, r.err, "command line")
		}
	}
	for _, node := range []string{"redis://u:" + secret + "@h:1", "redis+sentinel://h:1/n?sentinel_password=" + secret} {
		for _, args := range [][]string{{node, "check"}, {"--nodes", node, "--nonsense"}, {"--nodes", node, "--nodes", node, "inspect"}, {"--nodes=" + node, "check", node}} {
			r := call(t, nil, args...)
			require.Equal(t, 64, r.code, args)
			require.NotContains(t, r.out+r.err, secret, args)
		}
	}
	// What a command sees that does run.
	r := run(t, append(f.env, "REDLOCK_SENTINEL_PASSWORD="+secret, "REDLOCK_SENTINEL_PASSWORD_FILE="+file), "run", "x", "--", "env")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "REDLOCK_FENCE=")
	require.NotContains(t, r.out, secret)
	require.NotContains(t, r.out, "PASSWORD")
}
