package chaos_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/attack"
)

// TestMain is also the main of the client processes: the test binary starts
// itself, so clients need no build of their own and have the race detector when
// the tests have it.
func TestMain(m *testing.M) {
	if attack.ChildMain() {
		os.Exit(0)
	}
	if text := os.Getenv(clientEnv); text != "" {
		if err := clientMain(text); err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
