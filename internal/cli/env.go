package cli

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// environment are the variables of the invocation. It resolves flags that were
// not given.
type environment map[string]string

func newEnvironment(env []string) environment {
	e := make(environment, len(env))
	for _, line := range env {
		if name, value, ok := strings.Cut(line, "="); ok {
			e[name] = value
		}
	}
	return e
}

// variable is where a flag's default may stand.
func variable(flag string) string {
	return "REDLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Validate is for kong.
func (environment) Validate(*kong.Application) error { return nil }

// Resolve gives kong the value of a flag's variable.
func (e environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if value, ok := e[variable(flag.Name)]; ok && flag.Name != "help" {
		return value, nil
	}
	return nil, nil //nolint:nilnil // kong reads it as: no value here
}

var (
	scheme   = regexp.MustCompile(`^[a-z][a-z0-9+]*://`)
	hostPort = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]+(/[0-9]+)?(,|$)`)
)

// splitNodes splits a list at commas, but only where a scheme or host:port
// follows that is not part of a Sentinel or Cluster URL: passwords and those
// URLs contain commas too.
func splitNodes(list string) []string {
	var nodes []string
	begin := 0
	for i := range len(list) {
		if list[i] != ',' {
			continue
		}
		item, rest := strings.ToLower(strings.TrimSpace(list[begin:i])), strings.TrimLeft(list[i+1:], " \t\n")
		whole := strings.HasPrefix(item, "redis+") || strings.HasPrefix(item, "rediss+")
		if strings.TrimSpace(rest) == "" || scheme.MatchString(rest) || !whole && hostPort.MatchString(rest) {
			nodes = append(nodes, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	nodes = append(nodes, strings.TrimSpace(list[begin:]))
	if last := len(nodes) - 1; last > 0 && nodes[last] == "" {
		nodes = nodes[:last] // a comma at the end
	}
	return nodes
}
