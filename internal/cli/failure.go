package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock"
)

// failureJSON is what --json prints where there is no result: one shape for
// every command.
type failureJSON struct {
	Error failure `json:"error"`
}

type failure struct {
	Kind   string `json:"kind"` // usage, lost, held, no_quorum, config or failed
	Text   string `json:"text"`
	Status int    `json:"status"` // of the process
}

// exit prints an error and gives its code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if done, ok := errors.AsType[exitError](err); ok {
		return int(done)
	}
	f := failureOf(err)
	a.fail(f)
	return f.Status
}

// fail says why there is no result: a line, or one object where the result would
// be. The standard output of run is its command's, so there the object goes to
// the other stream.
func (a *app) fail(f failure) {
	switch {
	case !a.flags.JSON:
		fmt.Fprintln(a.stderr, "redlock:", f.Text)
	case a.dashes:
		_ = encodeJSON(a.stderr, failureJSON{f})
	default:
		_ = a.printJSON(failureJSON{f}) // a stream that is closed leaves nobody to tell
	}
}

// failureOf is what an error is called, and its exit code.
func failureOf(err error) failure {
	f := failure{"failed", strings.TrimPrefix(err.Error(), "redlock: "), exitFailed}
	_, usage := errors.AsType[*usageError](err)
	switch {
	case usage:
		f.Kind, f.Status = "usage", exitUsage
	case errors.Is(err, redlock.ErrLost):
		f.Kind, f.Status = "lost", exitLost
	case errors.Is(err, redlock.ErrHeld):
		f.Kind, f.Status = "held", exitHeld
	case errors.Is(err, redlock.ErrNoQuorum):
		f.Kind, f.Status = "no_quorum", exitNoQuorum
	case errors.Is(err, redlock.ErrConfig):
		f.Kind, f.Status = "config", exitConfig
	}
	return f
}
