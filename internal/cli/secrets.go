package cli

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// This file is about passwords: where they come from, and where they must not go.

// passwords are what addresses without one of their own get.
type passwords struct{ node, sentinel string }

// The variables with passwords; each has a twin with _FILE that names a file.
const (
	nodePassword     = "REDLOCK_PASSWORD" // #nosec G101 -- the names of variables
	sentinelPassword = "REDLOCK_SENTINEL_PASSWORD"
	inFile           = "_FILE"
)

func (e environment) passwords() (p passwords, err error) {
	if p.node, err = e.password(nodePassword); err != nil {
		return p, err
	}
	p.sentinel, err = e.password(sentinelPassword)
	return p, err
}

// password is the value of a variable, or what stands in the file that its twin names.
func (e environment) password(name string) (string, error) {
	file := e[name+inFile]
	if file == "" {
		return e[name], nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", &usageError{name + inFile + " cannot be read; name a file that this user may read"}
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// secret are the variables that a child never sees.
func (e environment) secret(name string) bool {
	switch name {
	case nodePassword, nodePassword + inFile, sentinelPassword, sentinelPassword + inFile:
		return true
	case "REDLOCK_NODES":
		// The whole list: where a password contains a comma, none of its parts may show it.
		return hasPassword(e[name]) || slices.ContainsFunc(splitNodes(e[name]), hasPassword)
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

// inParameter finds a password among an address's parameters.
var inParameter = regexp.MustCompile(`(?i)[?&][a-z_]*password=[^&]`)

// hasPassword says whether what may be an address contains a password. What is
// special in one should be percent-encoded, but it is a secret also where it is not.
func hasPassword(text string) bool {
	_, rest := cutScheme(text)
	user := strings.LastIndexByte(rest, '@')
	return user >= 0 && strings.Contains(rest[:user], ":") || inParameter.MatchString(text)
}

// warnOfPasswords tells of passwords on the command line, which every user of
// the machine can read.
func (a *app) warnOfPasswords(args []string) {
	for _, list := range a.flags.Nodes {
		given := slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, list) })
		if given && slices.ContainsFunc(splitNodes(list), hasPassword) {
			fmt.Fprintln(a.stderr, "redlock: warning: a password on the command line can be read by every user of this machine; "+
				"use REDLOCK_PASSWORD or REDLOCK_PASSWORD_FILE, and of sentinels REDLOCK_SENTINEL_PASSWORD")
			return
		}
	}
}

// hide takes passwords that stand on the command line out of a text about it.
func hide(text string, args []string) string {
	for _, arg := range args {
		if hasPassword(arg) {
			text = strings.ReplaceAll(text, arg, "(an address with a password)")
		}
	}
	return text
}

// cutScheme is an address without its scheme.
func cutScheme(node string) (scheme, rest string) {
	if before, after, ok := strings.Cut(node, "://"); ok {
		return before + "://", after
	}
	return "", node
}

// apply puts passwords into an address that has none.
func (p passwords) apply(node string) string {
	scheme, rest := cutScheme(node)
	if strings.HasSuffix(scheme, "sentinel://") && p.sentinel != "" && !strings.Contains(rest, "sentinel_password=") {
		rest = withParameter(rest, "sentinel_password", p.sentinel)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, host := "", rest[:end]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		user, host = host[:i], host[i+1:]
	}
	if p.node == "" || strings.Contains(user, ":") {
		return scheme + rest
	}
	switch at, err := netip.ParseAddr(host); {
	case scheme != "":
	case host == "unix:": // as a node's name shows it
		scheme, host = "unix://", ""
	default:
		if scheme = "redis://"; err == nil && at.Is6() {
			host = "[" + host + "]"
		}
	}
	return scheme + user + url.UserPassword("", p.node).String() + "@" + host + rest[end:]
}

// withParameter adds a parameter to an address.
func withParameter(rest, name, value string) string {
	fragment := ""
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest, fragment = rest[:i], rest[i:]
	}
	with := "?"
	if strings.Contains(rest, "?") {
		with = "&"
	}
	return rest + with + name + "=" + url.QueryEscape(value) + fragment
}
