package interop

import (
	"testing"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// startRedis starts an empty server that ends with the test.
func startRedis(t *testing.T) string {
	t.Helper()
	s, err := redisproc.Start(t.Context(), redisproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}
