package chaos_test

import (
	"testing"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// startServers starts n redis-servers as children. They persist nothing: what
// one forgets, it forgets.
func startServers(t *testing.T, n int) (all []*redisproc.Server, addrs []string) {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		missing(t, "the test starts real servers: %v", err)
	}
	all, err := redisproc.StartN(t.Context(), n, redisproc.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing %s: %v", s.Addr(), err)
			}
		})
		addrs = append(addrs, s.Addr())
	}
	return all, addrs
}
