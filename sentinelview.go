package redlock

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"
)

// sentinelSaid is what one sentinel says of a group.
type sentinelSaid struct {
	id     string   // its own
	known  bool     // it monitors a master of that name
	master string   // the master's address
	epoch  int64    // the group's config epoch
	others []string // ids of its fellows…
	addrs  []string // …and their addresses
}

// sentinelView is what the sentinels say, as far as they were heard. It is a
// state machine without connection or clock.
type sentinelView struct {
	name  string
	given int  // addresses that the user gave
	first bool // mutantFirstSentinel: the first answer is the truth

	ids    map[string]bool // that answered, or were named
	said   map[string]sentinelSaid
	addrs  []string // that were named, bounded
	failed *multierror.Error
	conf   [2]int // refusals that waiting does not mend, of those given and of those named
}

func newSentinelView(name string, given int, first bool) *sentinelView {
	return &sentinelView{name: name, given: given, first: first, ids: make(map[string]bool), said: make(map[string]sentinelSaid)}
}

// learn takes one sentinel's answer. One that is reached under two addresses
// counts once.
func (v *sentinelView) learn(addr string, s sentinelSaid) {
	if s.id == "" {
		s.id = addr
	}
	v.ids[s.id] = true
	v.said[s.id] = s
	for _, id := range s.others {
		v.ids[id] = true
	}
	for _, a := range s.addrs {
		if !slices.Contains(v.addrs, a) && len(v.addrs) < maxSentinels {
			v.addrs = append(v.addrs, a)
		}
	}
	if !s.known {
		v.conf[0]++
		v.failed = appendNode(v.failed, addr, "sentinel", &ConfigError{
			"master name", v.name, "is not monitored by this sentinel; SENTINEL MASTERS lists the names that are",
		})
	}
}

// fail takes an answer that did not come, or was a refusal. Who was not given but
// named may be one of the given under another address.
func (v *sentinelView) fail(addr string, err error, given bool) {
	if _, ok := errors.AsType[*ConfigError](err); ok {
		if given {
			v.conf[0]++
		} else {
			v.conf[1]++
		}
	}
	v.failed = appendNode(v.failed, addr, "sentinel", err)
}

// size is the number of configured sentinels: those given and those named. A
// given one that does not answer is taken for one of the named.
func (v *sentinelView) size() int { return max(v.given, len(v.ids)) }

// named is a master, and the group's config epoch.
type named struct {
	addr  string
	epoch int64
}

// master is the one that a majority names. A failover needs a majority too, so
// one of them knows of it; the epoch is the highest that any of them knows.
func (v *sentinelView) master() (named, bool) {
	count := make(map[string]int)
	best := named{}
	for _, s := range v.said {
		if s.known && s.master != "" {
			if count[s.master]++; 2*count[s.master] > v.size() || v.first {
				best.addr = s.master
			}
		}
	}
	for _, s := range v.said {
		if s.known && s.master == best.addr {
			best.epoch = max(best.epoch, s.epoch)
		}
	}
	return best, best.addr != ""
}

// unsettled says why no master has a majority, and what to do. Refusals are
// configuration where a majority is not possible without who refused.
func (v *sentinelView) unsettled() error {
	size := v.size()
	need := size/2 + 1
	conf := v.conf[0]
	if v.given < size {
		conf += v.conf[1]
	}
	names := make(map[string]bool)
	for _, s := range v.said {
		if s.known {
			names[s.master] = true
		}
	}
	var do string
	switch {
	case size-conf < need:
		return &ConfigError{"Sentinel group", v.name, fmt.Sprintf("%d of its %d sentinels refuse, and a master needs the word of %d: %v",
			conf, size, need, v.failed)}
	case len(names) > 1:
		do = "they name different masters, as during a failover; the vote is back when they agree"
	default:
		do = "start the others, or mend their addresses; SENTINEL RESET " + v.name + " forgets sentinels that are gone for good"
	}
	text := fmt.Sprintf("no master of %q: %d of its %d sentinels answered, and a master needs the word of %d; %s", v.name, len(v.said), size, need, do)
	if v.failed == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %v", text, v.failed) //nolint:errorlint // one sentinel's trouble is not the vote's
}
