package redlock

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// clusterView is who owns the buckets, as far as the nodes that were asked know.
// Where they differ the higher config epoch is right, as it is among the nodes
// themselves. It is a state machine without connection or clock.
type clusterView struct {
	hostnames bool // prefer names to addresses, for certificates
	first     bool // mutantFirstView: the first answer is the truth
	owners    [clusterBuckets]bucketOwner
	addrs     []string // of all nodes, bounded
	said      []string // the ids of the nodes that answered
}

type bucketOwner struct {
	id, addr string
	epoch    int64
}

// learn takes what the node at addr answered to CLUSTER NODES. The text comes
// from a server and is not trusted.
func (v *clusterView) learn(addr, text string) error {
	known := 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		epoch, err := strconv.ParseInt(f[6], 10, 64)
		at, ok := nodeAddr(f[1], addr, v.hostnames)
		flags := "," + f[2] + ","
		if err != nil || !ok || strings.Contains(flags, ",noaddr,") || strings.Contains(flags, ",handshake,") {
			continue
		}
		known++
		myself := strings.Contains(flags, ",myself,")
		if myself {
			v.said = append(v.said, f[0])
		}
		v.meet(at)
		if strings.Contains(flags, ",master,") && (!v.first || len(v.said) <= 1) {
			v.claim(bucketOwner{f[0], at, epoch}, f[8:])
		}
	}
	if known == 0 {
		return fmt.Errorf("%s answered CLUSTER NODES in a shape that is not known", addr)
	}
	return nil
}

func (v *clusterView) meet(addr string) {
	for _, a := range v.addrs {
		if a == addr {
			return
		}
	}
	if len(v.addrs) < maxClusterAddrs {
		v.addrs = append(v.addrs, addr)
	}
}

// claim gives a master the buckets in its slots, unless a newer one has them.
func (v *clusterView) claim(o bucketOwner, ranges []string) {
	for k := range v.owners {
		has := &v.owners[k]
		if has.id != "" && has.epoch >= o.epoch {
			continue
		}
		slot := bucketSlot(k)
		for _, r := range ranges {
			from, to, isRange := strings.Cut(r, "-")
			if !isRange {
				to = from
			}
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err1 == nil && err2 == nil && a <= slot && slot <= b { // "[93-<-id]" is a slot on the move
				*has = o
			}
		}
	}
}

// masters are those that own buckets, and how many of them answered.
func (v *clusterView) masters() (all, said int) {
	seen := make(map[string]bool)
	for _, o := range v.owners {
		if o.id != "" && !seen[o.id] {
			seen[o.id] = true
			all++
		}
	}
	for _, id := range v.said {
		if seen[id] {
			seen[id] = false
			said++
		}
	}
	return all, said
}

// masterAddrs are where the masters are.
func (v *clusterView) masterAddrs() []string {
	var addrs []string
	for _, o := range v.owners {
		if o.id != "" && !slices.Contains(addrs, o.addr) {
			addrs = append(addrs, o.addr)
		}
	}
	return addrs
}

// settled says that a majority of the masters was heard. A failover needs the
// votes of a majority too, so one of them knows of it.
func (v *clusterView) settled() bool {
	all, said := v.masters()
	return all > 0 && 2*said > all || v.first && len(v.said) > 0
}

// nodeAddr reads ip:port@cport[,hostname]. A node that does not know its own
// address is where it was asked.
func nodeAddr(field, asked string, hostnames bool) (string, bool) {
	field, rest, _ := strings.Cut(field, ",")
	hostname, _, _ := strings.Cut(rest, ",")
	field, _, _ = strings.Cut(field, "@")
	i := strings.LastIndexByte(field, ':')
	if i < 0 {
		return "", false
	}
	host, port := field[:i], field[i+1:]
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", false
	}
	if hostnames && hostname != "" && !strings.Contains(hostname, "=") {
		host = hostname
	}
	if host == "" {
		var err error
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return "", false
		}
	}
	return net.JoinHostPort(host, port), true
}
