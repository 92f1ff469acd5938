package attack

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// TestMain is also the main of the client processes: the test binary starts
// itself, so they have the race detector when the tests have it.
func TestMain(m *testing.M) {
	if ChildMain() {
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// needServers skips a test where there is no redis-server, and on CI fails it:
// there a skip would pass for a proof.
func needServers(t *testing.T) {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
