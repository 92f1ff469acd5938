package redisproc

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

//go:embed skew/skew.c
var skewSource []byte

// Clock is a wall clock that servers see instead of the machine's: it can be put
// forward and back, and run fast or slow. Their monotonic clock stays as it is.
type Clock struct {
	library, file string
}

// Clocks makes clocks. It compiles what the servers are started with once.
type Clocks struct {
	dir, library string
	made         int
}

// NewClocks needs Linux and a C compiler; the error says what is missing. The
// folder is for what it compiles and for what the clocks show.
func NewClocks(ctx context.Context, dir string) (*Clocks, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a server's clock can be set on Linux only, not on %s", runtime.GOOS)
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return nil, fmt.Errorf("to set a server's clock takes a C compiler (apt-get install gcc libc6-dev): %w", err)
	}
	source, c := filepath.Join(dir, "skew.c"), &Clocks{dir: dir, library: filepath.Join(dir, "skew.so")}
	if err := os.WriteFile(source, skewSource, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, compiler, "-O2", "-shared", "-fPIC", "-o", c.library, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the C compiler does not work: %w\n%s", err, out)
	}
	return c, nil
}

// New is one clock more, which shows the right time.
func (c *Clocks) New() (*Clock, error) {
	c.made++
	one := &Clock{library: c.library, file: filepath.Join(c.dir, fmt.Sprint("clock", c.made))}
	return one, one.Set(0, 1)
}

// Set puts the clock off by an offset, which is a step, and lets it run at a
// rate from now on. Servers know within 5 ms.
func (c *Clock) Set(offset time.Duration, rate float64) error {
	// Renamed into its place, so that nobody reads half of it.
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d %.9f", offset.Nanoseconds(), rate), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// environ is what a server is started with.
func (c *Clock) environ() []string {
	return append(os.Environ(), "LD_PRELOAD="+c.library, "SKEW_FILE="+c.file)
}
