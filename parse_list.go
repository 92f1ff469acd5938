package redlock

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// This file reads what the addresses of a Sentinel group and of a Cluster have in
// common: they name several hosts, and package url knows one.

// The kinds of addresses with several hosts.
const (
	kindSentinel = "sentinel"
	kindCluster  = "cluster"
)

// kindOf says what an address names, and whether over TLS; "" for a single server.
func kindOf(s string) (kind string, secure bool) {
	scheme, _ := splitScheme(s)
	transport, kind, ok := strings.Cut(scheme, "+")
	if !ok {
		transport, kind = "redis", scheme // sentinel:// and cluster:// by themselves
	}
	if kind != kindSentinel && kind != kindCluster {
		return "", false
	}
	switch transport {
	case "redis", "valkey":
		return kind, false
	case "rediss", "valkeys":
		return kind, true
	}
	return "", false
}

// hostList is an address with several hosts.
type hostList struct {
	addrs  []string
	first  *url.URL // the address as if it named the first host alone: credentials, path
	params map[string]string
}

// parseHosts reads …://user:password@h1:7000,h2/path?name=value; port is that of
// hosts without one. Its errors are rules, without the address.
func parseHosts(s, port string) (hostList, error) {
	_, rest := splitScheme(s)
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}
	if strings.Count(user, "@") > 1 {
		return hostList{}, errNotURL // credentials stand once, before the first host
	}
	var list hostList
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("redis://" + user + strings.TrimSpace(host) + tail)
		if err != nil || u.Fragment != "" || u.Opaque != "" {
			return hostList{}, errNotURL
		}
		addr, err := hostPort(u, port)
		if err != nil {
			return hostList{}, err
		}
		if slices.Contains(list.addrs, addr) {
			return hostList{}, errors.New("names a host twice; name each once")
		}
		list.addrs = append(list.addrs, addr)
		if list.first == nil {
			list.first = u
		}
	}
	var err error
	list.params, err = parameters(list.first)
	return list, err
}

// ruleOf makes a rule, without the address, of what Sentinel and Cluster find wrong
// with their options.
func ruleOf(err error) error {
	if e, ok := errors.AsType[*ConfigError](err); ok {
		return errors.New(strings.TrimSpace(e.What + " " + e.Rule))
	}
	return err
}
