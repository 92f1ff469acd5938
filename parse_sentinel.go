package redlock

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// isSentinelURL says that an address names a Sentinel group, and whether over TLS.
func isSentinelURL(s string) (secure, ok bool) {
	scheme, _ := splitScheme(s)
	switch scheme {
	case "redis+sentinel", "valkey+sentinel", "sentinel":
		return false, true
	case "rediss+sentinel", "valkeys+sentinel":
		return true, true
	}
	return false, false
}

// parseSentinel reads redis+sentinel://user:password@h1,h2:26379/name?db=1. Its
// errors are rules, without the address.
func parseSentinel(s string, secure bool) (Node, error) {
	_, rest := splitScheme(s)
	// The hosts are taken one by one: package url knows no list.
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, list := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, list = authority[:i+1], authority[i+1:]
	}
	if strings.Count(user, "@") > 1 {
		return Node{}, errNotURL // credentials stand once, before the first host
	}
	opt := &redis.FailoverOptions{}
	var params map[string]string
	for i, host := range strings.Split(list, ",") {
		host = strings.TrimSpace(host)
		u, err := url.Parse("redis://" + user + host + tail)
		if err != nil || u.Fragment != "" || u.Opaque != "" {
			return Node{}, errNotURL
		}
		if u.Port() == "" && u.Hostname() != "" {
			u.Host += ":26379"
		}
		addr, err := hostPort(u)
		if err != nil {
			return Node{}, err
		}
		if slices.Contains(opt.SentinelAddrs, addr) {
			return Node{}, errors.New("names a sentinel twice; name each once")
		}
		opt.SentinelAddrs = append(opt.SentinelAddrs, addr)
		if i > 0 {
			continue
		}
		if opt.MasterName = strings.TrimPrefix(u.Path, "/"); opt.MasterName == "" || strings.Contains(opt.MasterName, "/") {
			return Node{}, errors.New("has no master name; write redis+sentinel://h1,h2,h3/name, and a database as ?db=1")
		}
		opt.Username, opt.Password = credentials(u)
		if params, err = parameters(u); err != nil {
			return Node{}, err
		}
	}
	return sentinelOf(opt, params, secure)
}

// sentinelOf takes the parameters of a group.
func sentinelOf(opt *redis.FailoverOptions, params map[string]string, secure bool) (Node, error) {
	take := func(name string) string {
		v := params[name]
		delete(params, name)
		return v
	}
	var err error
	if opt.DB, err = databaseNumber(take("db")); err != nil {
		return Node{}, err
	}
	opt.SentinelUsername, opt.SentinelPassword = take("sentinel_username"), take("sentinel_password")
	var more []SentinelOption
	switch take("sentinel_tls") {
	case "", "true":
	case "false":
		more = append(more, SentinelTLS(nil))
	default:
		return Node{}, errors.New("sentinel_tls is true or false")
	}
	switch {
	case secure:
		if opt.TLSConfig, err = clusterTLS("", params); err != nil {
			return Node{}, err
		}
	case len(params) > 0:
		return Node{}, errors.New("has a parameter that is not known; a group takes db, sentinel_username and sentinel_password, " +
			"and with rediss+sentinel:// sentinel_tls and those of TLS")
	}
	if err := checkSentinel(opt); err != nil {
		if e, ok := errors.AsType[*ConfigError](err); ok {
			return Node{}, errors.New(strings.TrimSpace(e.What + " " + e.Rule))
		}
		return Node{}, err
	}
	return Sentinel(opt, more...), nil
}
