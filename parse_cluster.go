package redlock

import (
	"crypto/tls"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// isClusterURL says that an address names a Redis Cluster, and whether over TLS.
func isClusterURL(s string) (secure, ok bool) {
	scheme, _ := splitScheme(s)
	switch scheme {
	case "redis+cluster", "valkey+cluster", "cluster":
		return false, true
	case "rediss+cluster", "valkeys+cluster":
		return true, true
	}
	return false, false
}

// parseCluster reads redis+cluster://user:password@h1:6379,h2?votes=3. Its errors
// are rules, without the address.
func parseCluster(s string, secure bool) ([]Node, error) {
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
		return nil, errNotURL // credentials stand once, before the first host
	}
	opt := &redis.ClusterOptions{}
	var params map[string]string
	name := ""
	for i, host := range strings.Split(list, ",") {
		u, err := url.Parse("redis://" + user + strings.TrimSpace(host) + tail)
		if err != nil || u.Fragment != "" || u.Opaque != "" {
			return nil, errNotURL
		}
		addr, err := hostPort(u)
		if err != nil {
			return nil, err
		}
		if slices.Contains(opt.Addrs, addr) {
			return nil, errors.New("names a host twice; name each once")
		}
		opt.Addrs = append(opt.Addrs, addr)
		if i > 0 {
			continue
		}
		name = u.Hostname()
		if db := strings.TrimPrefix(u.Path, "/"); db != "" && db != "0" {
			return nil, errors.New("has a database, and a Cluster has none but 0; leave it out")
		}
		opt.Username, opt.Password = credentials(u)
		if params, err = parameters(u); err != nil {
			return nil, err
		}
	}
	votes, err := clusterVotes(params)
	if err != nil {
		return nil, err
	}
	switch {
	case secure:
		if opt.TLSConfig, err = clusterTLS(name, params); err != nil {
			return nil, err
		}
	case len(params) > 0:
		return nil, errors.New("has a parameter that is not known; a Cluster takes votes=3, and with rediss+cluster:// those of TLS")
	}
	if err := checkCluster(opt, votes); err != nil {
		if e, ok := errors.AsType[*ConfigError](err); ok {
			return nil, errors.New(strings.TrimSpace(e.What + " " + e.Rule))
		}
		return nil, err
	}
	return Cluster(opt, votes), nil
}

// clusterVotes takes the votes out of the parameters: 3 unless given.
func clusterVotes(params map[string]string) (int, error) {
	text, ok := params["votes"]
	delete(params, "votes")
	if !ok {
		return 3, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, errors.New("votes is a number, from 1 to that of the Cluster's masters")
	}
	return int(n), nil
}

// clusterTLS is the TLS of every node of a Cluster: each has its own name, unless
// server_name is given.
func clusterTLS(host string, params map[string]string) (*tls.Config, error) {
	c, err := parseTLS(host, params)
	if err == nil && params["server_name"] == "" {
		c.ServerName = ""
	}
	return c, err
}
