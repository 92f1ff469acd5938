package cli

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
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

// password is what nodes without one in their address get.
func (e environment) password() (string, error) {
	if file := e["REDLOCK_PASSWORD_FILE"]; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", &usageError{"REDLOCK_PASSWORD_FILE cannot be read; name a file that this user may read"}
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	return e["REDLOCK_PASSWORD"], nil
}

// secret are the variables that a child never sees.
func (e environment) secret(name string) bool {
	switch name {
	case "REDLOCK_PASSWORD", "REDLOCK_PASSWORD_FILE", "REDLOCK_SENTINEL_PASSWORD", "REDLOCK_SENTINEL_PASSWORD_FILE":
		return true
	case "REDLOCK_NODES":
		return hasPassword(e[name])
	}
	return false
}

// forChild is the environment of run's command.
func (e environment) forChild(more ...string) []string {
	var env []string
	for name, value := range e {
		if !e.secret(name) {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// userinfo finds user:password@ in what may be an address.
var userinfo = regexp.MustCompile(`://[^/@]*:[^/]*@`)

func hasPassword(text string) bool { return userinfo.MatchString(text) }

// warnOfPasswords tells of passwords on the command line, which every user of
// the machine can read.
func (a *app) warnOfPasswords(args []string) {
	if slices.ContainsFunc(args, hasPassword) {
		fmt.Fprintln(a.stderr, "redlock: warning: a password on the command line can be read by every user of this machine; "+
			"use REDLOCK_PASSWORD or REDLOCK_PASSWORD_FILE")
		return
	}
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

// withPassword puts a password into an address that has none.
func withPassword(node, password string) string {
	if password == "" {
		return node
	}
	if !strings.Contains(node, "://") {
		if strings.Contains(node, "@") {
			return node
		}
		node = "redis://" + node
	}
	u, err := url.Parse(node)
	if err != nil {
		return node // ParseNodes says what is wrong with it
	}
	if _, has := u.User.Password(); has {
		return node
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
