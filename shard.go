package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
)

// Sharded locks names over several independent groups of nodes: each name lives
// in one of them. More groups carry more names a second, and one that lost its
// majority takes only its own names along. It has the verbs of a [Locker] and is
// safe for concurrent use.
//
// A name's group is found by rendezvous hashing over the addresses of the groups'
// nodes, so clients with the same groups agree, in whatever order they list groups
// and nodes, and a group that is added takes over its share (one in n names) and
// moves no other. Clients whose lists differ, if only in how an address is spelt,
// do not exclude each other on the names that moved: change the list, or a node's
// address, with all clients stopped, or wait until the leases of the old list have
// ended before the first client with the new one starts.
type Sharded struct {
	groups []*Locker
	seeds  []uint64 // the groups' parts of the weights
	err    error    // of the arguments, for every verb
}

// Shard makes a Sharded of groups, each made by [New]; one is enough. It does no
// I/O. A group without nodes or one that is nil, and a server that stands in two
// groups, are a *[ConfigError] of every verb. Close closes the groups.
func Shard(groups ...*Locker) *Sharded {
	s := &Sharded{groups: groups}
	if len(groups) == 0 {
		s.err = &ConfigError{"groups", "none", "give at least one Locker"}
	}
	in := make(map[string]int) // the group of an address
	for i, l := range groups {
		if l == nil {
			s.err = errors.Join(s.err, &ConfigError{fmt.Sprintf("group %d", i), "nil", "make it with New"})
			s.seeds = append(s.seeds, 0)
			continue
		}
		for _, where := range l.where {
			if j, ok := in[where]; ok {
				s.err = errors.Join(s.err, &ConfigError{fmt.Sprintf("group %d", i), where,
					fmt.Sprintf("is a server of group %d too; groups are independent: list every server in one of them", j)})
			}
			in[where] = i
		}
		s.seeds = append(s.seeds, shardSeed(l.where))
	}
	return s
}

// shardSeed is the same for the same servers in any order.
func shardSeed(where []string) uint64 {
	return fnv64(strings.Join(slices.Sorted(slices.Values(where)), "\n"))
}

func fnv64(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}

// shardWeight is a group's claim to a name. Clients of all versions must agree on
// it, so it never changes; a test has values.
func shardWeight(seed uint64, name string) uint64 {
	x := seed ^ fnv64(name)
	x ^= x >> 33 // the finalizer of MurmurHash3
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Group is the Locker of the group that a name belongs to, for what Sharded has no
// verb for. The error is the *[ConfigError] of Shard's arguments.
func (s *Sharded) Group(name string) (*Locker, error) {
	if s.err != nil {
		return nil, s.err
	}
	best := 0
	for i := range s.groups {
		if shardWeight(s.seeds[i], name) > shardWeight(s.seeds[best], name) {
			best = i
		}
	}
	return s.groups[best], nil
}

// Acquire is [Locker.Acquire] in the name's group.
func (s *Sharded) Acquire(ctx context.Context, name string, opts ...LockOption) (*Lease, error) {
	l, err := s.Group(name)
	if err != nil {
		return nil, err
	}
	return l.Acquire(ctx, name, opts...)
}

// TryAcquire is [Locker.TryAcquire] in the name's group.
func (s *Sharded) TryAcquire(ctx context.Context, name string, opts ...LockOption) (*Lease, error) {
	l, err := s.Group(name)
	if err != nil {
		return nil, err
	}
	return l.TryAcquire(ctx, name, opts...)
}

// Do is [Locker.Do] in the name's group.
func (s *Sharded) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...LockOption) error {
	l, err := s.Group(name)
	if err != nil {
		return err
	}
	return l.Do(ctx, name, fn, opts...)
}

// Inspect is [Locker.Inspect] in the name's group: only its nodes are asked.
func (s *Sharded) Inspect(ctx context.Context, name string) (Status, error) {
	l, err := s.Group(name)
	if err != nil {
		return Status{Name: name}, err
	}
	return l.Inspect(ctx, name)
}

// Break is [Locker.Break] in the name's group.
func (s *Sharded) Break(ctx context.Context, name, token string) error {
	l, err := s.Group(name)
	if err != nil {
		return err
	}
	return l.Break(ctx, name, token)
}

// Init is [Locker.Init] of all groups at once. The errors of those that failed are
// joined; the others are initialised nevertheless, and Init may be repeated.
func (s *Sharded) Init(ctx context.Context) error {
	return s.all(func(l *Locker) error { return l.Init(ctx) })
}

// InitForce is [Locker.InitForce] of all groups at once, as Init.
func (s *Sharded) InitForce(ctx context.Context) error {
	return s.all(func(l *Locker) error { return l.InitForce(ctx) })
}

// Reseal is [Locker.Reseal] of all groups at once, as Init.
func (s *Sharded) Reseal(ctx context.Context) error {
	return s.all(func(l *Locker) error { return l.Reseal(ctx) })
}

// all calls f for every group at once.
func (s *Sharded) all(f func(*Locker) error) error {
	if s.err != nil {
		return s.err
	}
	errs := make([]error, len(s.groups))
	var wg sync.WaitGroup
	for i, l := range s.groups {
		wg.Go(func() { errs[i] = f(l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Check is [Locker.Check] of all groups at once: their nodes in the order of
// Shard's arguments. Bad arguments of Shard are the one finding of a report without
// a node.
func (s *Sharded) Check(ctx context.Context) []NodeReport {
	if s.err != nil {
		r := NodeReport{}
		r.add(Problem, s.err.Error(), "mend the arguments of Shard")
		return []NodeReport{r}
	}
	each := make([][]NodeReport, len(s.groups))
	var wg sync.WaitGroup
	for i, l := range s.groups {
		wg.Go(func() { each[i] = l.Check(ctx) })
	}
	wg.Wait()
	return slices.Concat(each...)
}

// Close is [Locker.Close] of all groups at once, also of those that bad arguments
// of Shard name.
func (s *Sharded) Close() error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.groups))
	for i, l := range s.groups {
		if l != nil {
			wg.Go(func() { errs[i] = l.Close() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
