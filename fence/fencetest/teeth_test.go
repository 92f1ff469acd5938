package fencetest

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cell is a value and its number.
type cell struct {
	n     uint64
	value string
}

// store is a resource with a sin.
type store struct {
	mu  sync.Mutex
	m   map[string]cell
	sin string
}

func newStore(sin string) *store { return &store{m: make(map[string]cell), sin: sin} }

func (s *store) Read(_ context.Context, key string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[s.key(key)].value, nil
}

func (s *store) key(key string) string {
	if s.sin == "one number for all keys" && len(key) == 1 {
		return "a"
	}
	return key
}

func (s *store) Write(_ context.Context, key string, n uint64, value string) error {
	if err := fence.Check(key, n); err != nil && s.sin != "takes any number" {
		return err
	}
	key = s.key(key)
	s.mu.Lock()
	old := s.m[key]
	if s.sin == "looks first, writes later" {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	stale := &fence.StaleError{Key: key, Fence: n, Highest: old.n}
	switch s.sin {
	case "no gate":
	case "wants a new number for every write":
		if n <= old.n {
			return stale
		}
	case "wants the next number":
		if old.n > 0 && n != old.n && n != old.n+1 {
			return stale
		}
	case "remembers the last refused":
		if n < old.n {
			s.m[key] = cell{n, old.value}
			return stale
		}
	case "writes, then refuses":
		if n < old.n {
			s.m[key] = cell{old.n, value}
			return stale
		}
	case "32 bits":
		if uint32(n) < uint32(old.n) {
			return stale
		}
	case "floats":
		if float32(n) < float32(old.n) {
			return stale
		}
	default:
		if n < old.n {
			return stale
		}
	}
	s.m[key] = cell{n, value}
	return nil
}

// Reopen is for a store that keeps its values, and, but for the sin, its numbers.
func (s *store) Reopen(context.Context) (Resource, error) {
	again := newStore(s.sin)
	for key, c := range s.m {
		if s.sin == "forgets" {
			c.n = 0
		}
		again.m[key] = c
	}
	return again, nil
}

func TestASoundStorePasses(t *testing.T) {
	Run(t, func(*testing.T) Resource { return newStore("") })
}

// Every rule has a resource that breaks it, and is found.
func TestConformanceHasTeeth(t *testing.T) {
	noticed := make(map[string]bool)
	for _, sin := range []string{
		"no gate", "looks first, writes later", "wants a new number for every write", "wants the next number", "remembers the last refused",
		"writes, then refuses", "one number for all keys", "takes any number", "32 bits", "floats", "forgets",
	} {
		found := false
		for range 20 { // a race shows in most runs, not in each
			for _, c := range cases {
				if c.test(t.Context(), newStore(sin)) != nil {
					found, noticed[c.name] = true, true
				}
			}
			if found {
				break
			}
		}
		require.True(t, found, "nobody noticed: %s", sin)
	}
	for _, c := range cases {
		require.True(t, noticed[c.name], "no sinner fails it: %s", c.name)
	}
}
