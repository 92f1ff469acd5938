package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock"
)

// runCmd is flock(1) for a fleet.
type runCmd struct {
	Name        string    `arg:"" help:"The lock's name."`
	Wait        *duration `help:"How long to wait for the name; 0s is one try; for ever if not given." placeholder:"D"`
	Grace       duration  `help:"How long before the lease ends the command is told to stop (TERM); it is killed before the end. A fifth of the TTL by default." default:"0s" placeholder:"D"`
	MaxHold     duration  `help:"Stop the command after this time." default:"0s" placeholder:"D" name:"max-hold"`
	HoldAtLeast duration  `help:"Keep the name for this long even if the command ends sooner; at most the TTL." default:"0s" placeholder:"D" name:"hold-at-least"`
	Label       string    `help:"What inspect shows of this holder; user, host, process and command by default." placeholder:"TEXT"`

	ExitHeld     int `help:"Exit status when another holds the name." default:"75" placeholder:"N"`
	ExitNoQuorum int `help:"Exit status when no majority of the nodes answers." default:"69" placeholder:"N"`
	ExitLost     int `help:"Exit status when the lease was lost while the command ran." default:"70" placeholder:"N"`
	ExitConfig   int `help:"Exit status for bad configuration." default:"78" placeholder:"N"`
}

// forwarded are the signals that the command gets when the wrapper does.
func forwarded() []os.Signal {
	return slices.DeleteFunc([]os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
	}, signal.Ignored) // what nohup ignores stays ignored
}

// ends says whether a signal ends a wrapper that still waits.
func ends(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// check refuses what cannot work before anything is locked.
func (c *runCmd) check(a *app) error {
	ttl := time.Duration(a.flags.TTL)
	switch {
	case !a.dashes || len(a.command) == 0 || a.command[0] == "":
		return &usageError{"no command; write it after --, as in redlock run NAME -- CMD ARG…"}
	case c.Grace < 0 || time.Duration(c.Grace) > ttl/2:
		return &usageError{fmt.Sprintf("--grace %v must be from 0s to half the TTL, %v, so that two renewals may fail before it", time.Duration(c.Grace), ttl/2)}
	case c.MaxHold < 0:
		return &usageError{"--max-hold must be above zero"}
	}
	if c.Grace == 0 {
		c.Grace = duration(ttl / 5)
	}
	for flag, code := range map[string]int{
		"--exit-held": c.ExitHeld, "--exit-no-quorum": c.ExitNoQuorum, "--exit-lost": c.ExitLost, "--exit-config": c.ExitConfig,
	} {
		if code < 0 || code > 255 {
			return &usageError{fmt.Sprintf("%s %d must be from 0 to 255", flag, code)}
		}
	}
	return nil
}

// Run is for kong.
func (c *runCmd) Run(a *app) error {
	if err := c.check(a); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	l, err := a.locker()
	if err != nil {
		return c.moved(a, err)
	}
	defer l.Close()
	lease, err := c.acquire(a, l, signals)
	if err != nil {
		return c.moved(a, err)
	}
	return c.hold(a, lease, signals)
}

// moved gives an error the exit code that the flags want for it.
func (c *runCmd) moved(a *app, err error) error {
	if done, ok := errors.AsType[exitError](err); ok {
		return done
	}
	f := failureOf(err)
	switch f.Status {
	case exitHeld:
		f.Status = c.ExitHeld
	case exitNoQuorum:
		f.Status = c.ExitNoQuorum
	case exitLost:
		f.Status = c.ExitLost
	case exitConfig:
		f.Status = c.ExitConfig
	}
	a.fail(f)
	return exitError(f.Status)
}

// acquire waits for the name until a signal ends that.
func (c *runCmd) acquire(a *app, l *redlock.Locker, signals <-chan os.Signal) (*redlock.Lease, error) {
	opts := []redlock.LockOption{redlock.WithLabel(c.label(a)), redlock.WithMinHold(time.Duration(c.HoldAtLeast)), redlock.WithFencing()}
	if c.Wait != nil {
		opts = append(opts, redlock.WithWait(time.Duration(*c.Wait)))
	}
	if c.MaxHold > 0 {
		opts = append(opts, redlock.WithMaxHold(time.Duration(c.MaxHold)))
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	type result struct {
		lease *redlock.Lease
		err   error
	}
	won := make(chan result, 1)
	go func() {
		lease, err := l.Acquire(ctx, c.Name, opts...)
		won <- result{lease, err}
	}()
	for {
		select {
		case r := <-won:
			return r.lease, r.err
		case s := <-signals:
			if !ends(s) {
				continue
			}
			cancel()
			if r := <-won; r.err == nil {
				_ = r.lease.Release(a.ctx) // it came in the same moment; the command is not started any more
			}
			return nil, exitError(exitSignal + int(s.(syscall.Signal)))
		}
	}
}

// label is what inspect shows of this holder.
func (c *runCmd) label(a *app) string {
	if c.Label != "" {
		return c.Label
	}
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	text := fmt.Sprintf("%s@%s pid %d since %s: %s", name, host, os.Getpid(), time.Now().UTC().Format(time.RFC3339), filepath.Base(a.command[0]))
	return clean(text, 200)
}

// clean makes a label of any text: printable, and cut to so many bytes.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// hold runs the command under the lease.
func (c *runCmd) hold(a *app, lease *redlock.Lease, signals <-chan os.Signal) error {
	child, err := a.start(a.command, a.env.forChild(
		"REDLOCK_NAME="+c.Name, fmt.Sprint("REDLOCK_FENCE=", lease.Fence()), "REDLOCK_UNTIL="+lease.Until().Format(time.RFC3339Nano)))
	if err != nil {
		_ = lease.Release(a.ctx)
		fmt.Fprintf(a.stderr, "redlock: cannot run %s: %v\n", a.command[0], err)
		return exitError(startCode(err))
	}
	lost := c.guard(a, lease, child, signals)
	err = lease.Release(a.ctx)
	switch {
	case lost != nil:
		return c.moved(a, lost)
	case errors.Is(err, redlock.ErrLost):
		return c.moved(a, err)
	case err != nil:
		fmt.Fprintln(a.stderr, "redlock: notice: the command is done, but the name could not be released and ends with its TTL:", err)
	}
	return exitError(child.code())
}

// guard waits for the command, passes signals on, and stops it in time when the
// lease ends: TERM when it is lost or no renewal came until the grace before
// its end, KILL before that end.
func (c *runCmd) guard(a *app, lease *redlock.Lease, child *child, signals <-chan os.Signal) (lost error) {
	grace := time.Duration(c.Grace)
	done := lease.Context().Done()
	timer := time.NewTimer(time.Until(lease.Until()) - grace)
	defer timer.Stop()
	for {
		select {
		case <-child.done:
			return lost
		case s := <-signals:
			child.signal(s.(syscall.Signal))
			continue
		case <-a.ctx.Done():
			child.signal(syscall.SIGTERM)
			return c.stop(lease, child, time.Now().Add(grace), a.ctx.Err())
		case <-done:
			child.signal(syscall.SIGTERM)
			return c.stop(lease, child, time.Now().Add(grace), lease.Err())
		case <-timer.C:
		}
		if left := time.Until(lease.Until()) - grace; left > 0 {
			timer.Reset(left) // it was renewed
			continue
		}
		child.signal(syscall.SIGTERM)
		err := context.Cause(lease.Context())
		if err == nil {
			err = &redlock.LostError{Names: lease.Names(), Reason: redlock.LostNoQuorum, Until: lease.Until()}
		}
		return c.stop(lease, child, time.Now().Add(grace), err)
	}
}

// stop waits for a command that was told to end, and kills it at the given time
// or just before the validity ends, whichever is first. After max hold the key
// outlives the context, and the validity is what counts.
func (c *runCmd) stop(lease *redlock.Lease, child *child, at time.Time, lost error) error {
	if end := lease.Until().Add(-20 * time.Millisecond); end.Before(at) {
		at = end
	}
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-child.done:
	case <-t.C:
	}
	child.signal(syscall.SIGKILL) // the rest of its process group, too
	<-child.done
	return lost
}

// startCode is the shell's code for a command that could not be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
