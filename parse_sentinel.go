package redlock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// parseSentinel reads redis+sentinel://user:password@h1,h2:26379/name?db=1. Its
// errors are rules, without the address.
func parseSentinel(s string, secure bool) (Node, error) {
	list, err := parseHosts(s, "26379")
	if err != nil {
		return Node{}, err
	}
	opt := &redis.FailoverOptions{SentinelAddrs: list.addrs, MasterName: strings.TrimPrefix(list.first.Path, "/")}
	if opt.MasterName == "" || strings.Contains(opt.MasterName, "/") {
		return Node{}, errors.New("has no master name; write redis+sentinel://h1,h2,h3/name, and a database as ?db=1")
	}
	opt.Username, opt.Password = credentials(list.first)
	params, own := splitSentinel(list.params)
	if opt.DB, err = databaseNumber(params["db"]); err != nil {
		return Node{}, err
	}
	delete(params, "db")
	opt.SentinelUsername, opt.SentinelPassword = own["username"], own["password"]
	delete(own, "username")
	delete(own, "password")
	switch {
	case secure:
		if opt.TLSConfig, err = parseTLS("", params); err != nil {
			return Node{}, err
		}
	case len(params) > 0:
		return Node{}, errors.New("has a parameter that is not known; a group takes db, sentinel_username, sentinel_password and " +
			"sentinel_tls, and with rediss+sentinel:// those of TLS")
	}
	more, err := sentinelTLS(own, secure)
	if err != nil {
		return Node{}, err
	}
	if err := checkSentinel(opt); err != nil {
		return Node{}, ruleOf(err)
	}
	return Sentinel(opt, more...), nil
}

// splitSentinel takes the sentinels' own parameters out, without their prefix.
func splitSentinel(params map[string]string) (rest, own map[string]string) {
	rest, own = make(map[string]string), make(map[string]string)
	for name, value := range params {
		if name, ok := strings.CutPrefix(name, "sentinel_"); ok {
			own[name] = value
		} else {
			rest[name] = value
		}
	}
	return rest, own
}

// sentinelTLS is how the sentinels are reached where that is not as the masters are:
// sentinel_tls says whether over TLS, sentinel_ca_file and its like with what.
func sentinelTLS(own map[string]string, secure bool) ([]SentinelOption, error) {
	wanted, given := own["tls"]
	delete(own, "tls")
	switch {
	case given && wanted != "true" && wanted != "false":
		return nil, errors.New("sentinel_tls is true or false")
	case len(own) == 0 && (!given || wanted == "true" && secure):
		return nil, nil // as the masters
	}
	var c *tls.Config
	if wanted != "false" {
		var err error
		if c, err = parseTLS("", own); err != nil {
			return nil, fmt.Errorf("of the sentinels: %w", err)
		}
	} else if len(own) > 0 {
		return nil, errors.New("has sentinel_tls=false, and parameters for the sentinels' TLS; leave out one of them")
	}
	return []SentinelOption{SentinelTLS(c)}, nil
}
