package main

import (
	"context"
	"slices"
	"time"
)

// lease is the TTL that every implementation asks for.
const lease = 10 * time.Second

// locker is one implementation at work on one set of nodes.
type locker interface {
	// pair acquires a name that nobody holds, and releases it: what is measured.
	// With once set a library that would try again on failure does not, where
	// it has a choice.
	pair(ctx context.Context, name string, once bool) error
	// lock waits until it has the name, or ctx ends: for the parts that look for
	// overlaps. unlock does not mind the end of ctx.
	lock(ctx context.Context, name string) (unlock func() error, err error)
	close()
}

// maker makes a locker of one implementation.
type maker struct {
	name string
	// patient says that it waits for every node, so one that hangs or is gone
	// costs it its time-outs in every pair: where nodes are in trouble only a
	// few pairs of it are measured.
	patient bool
	// one says that it knows one node only.
	one bool
	// polls says that a wait for a name ends by a poll every 50 ms or more, so
	// few hand-overs of it are worth their time.
	polls bool
	open  func(ctx context.Context, addrs []string) (locker, error)
}

const (
	nameFloor       = "floor"
	nameRedsync     = "redsync"
	nameFailFast    = "redsync-ff"
	nameRedislock   = "redislock"
	nameRueidislock = "rueidislock"
	nameRedlock     = "redlock"
)

func makers() []maker {
	return []maker{
		{name: nameFloor, open: openFloor},
		{name: nameRedsync, patient: true, polls: true, open: openRedsync},
		{name: nameFailFast, polls: true, open: openRedsyncFailFast},
		{name: nameRedislock, one: true, polls: true, open: openRedislock},
		{name: nameRueidislock, one: true, open: openRueidislock},
		{name: nameRedlock, open: openRedlock},
	}
}

// at are the implementations that can work on n nodes.
func (p *plan) at(n int) []maker {
	return slices.DeleteFunc(slices.Clone(p.makers), func(m maker) bool { return m.one && n > 1 })
}
