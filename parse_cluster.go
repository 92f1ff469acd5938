package redlock

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// parseCluster reads redis+cluster://user:password@h1:6379,h2?votes=3. Its errors
// are rules, without the address.
func parseCluster(s string, secure bool) ([]Node, error) {
	list, err := parseHosts(s, "6379")
	if err != nil {
		return nil, err
	}
	opt := &redis.ClusterOptions{Addrs: list.addrs}
	if db := strings.TrimPrefix(list.first.Path, "/"); db != "" && db != "0" {
		return nil, errors.New("has a database, and a Cluster has none but 0; leave it out")
	}
	opt.Username, opt.Password = credentials(list.first)
	votes, err := clusterVotes(list.params)
	if err != nil {
		return nil, err
	}
	switch {
	case secure:
		if opt.TLSConfig, err = parseTLS("", list.params); err != nil {
			return nil, err
		}
	case len(list.params) > 0:
		return nil, errors.New("has a parameter that is not known; a Cluster takes votes=3, and with rediss+cluster:// those of TLS")
	}
	if err := checkCluster(opt, votes); err != nil {
		return nil, ruleOf(err)
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
