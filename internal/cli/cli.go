// Package cli is the command line: a function of arguments, environment and
// three streams that returns an exit code.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/attack"
)

// Exit codes, after sysexits.h where there is one. run moves the middle four by
// flags, so that they do not collide with those of its command.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 64
	exitNoQuorum = 69
	exitLost     = 70
	exitHeld     = 75
	exitConfig   = 78
	exitSignal   = 128 // plus the signal's number
)

// grammar is what can be said on the command line.
type grammar struct {
	Nodes       []string `help:"Redis masters: host:port, redis://, rediss:// or unix:// URLs; repeat, or separate by commas." placeholder:"URL" sep:"none"`
	TTL         duration `help:"How long a lease lives unless it is renewed." default:"10s" placeholder:"10s"`
	MaxTTL      duration `help:"The longest TTL; part of the seal, so alike for every client of the deployment." default:"10s" placeholder:"10s" name:"max-ttl"`
	Prefix      string   `help:"What stands before the name in a lock's key." default:"lock:" placeholder:"lock:"`
	NodeTimeout duration `help:"How long one node may take; 0s for a tenth of the TTL, 5ms to 250ms." default:"0s" placeholder:"D"`
	BestEffort  bool     `help:"No quarantine and no check for eviction: two holders are possible after a restart."`
	JSON        bool     `help:"Print one JSON object instead of text." name:"json"`

	Demo    demoCmd    `cmd:"" help:"The limited sale, without and with the lock, while nodes fail. Needs no server."`
	Run     runCmd     `cmd:"" help:"Run a command while holding NAME: redlock run NAME -- CMD…"`
	Inspect inspectCmd `cmd:"" help:"Who holds NAME, node by node. Exit status: 0 held, 1 free, 69 unknown."`
	Break   breakCmd   `cmd:"" help:"Free NAME from the holder whose token is given, and from no other."`
	Init    initCmd    `cmd:"" help:"Declare new nodes empty, once, before first use."`
	Check   checkCmd   `cmd:"" help:"Is every node fit to vote? Exit status: 0 sound, 1 not."`
	Chaos   chaosCmd   `cmd:"" help:"Attack the lock, with a TTL of 1 s and keys of its own, and judge what its clients saw. Exit status: 0 as the profile wants, 1 not."`
}

// app is one invocation.
type app struct {
	ctx            context.Context //nolint:containedctx // an invocation is a call
	env            environment
	command        []string // what stands after "--"
	dashes         bool     // there was a "--"
	given          map[string]bool
	stdin          io.Reader
	stdout, stderr io.Writer
	rawStderr      io.Writer // as it was given, for the child and the terminal
	flags          *grammar
}

// lockedWriter lets the log and the command write to one stream.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// duration is a time.Duration that insists on its unit.
type duration time.Duration

// UnmarshalText reads a duration with a unit, as 300ms or 1m30s.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: a number and its unit are required, as in 300ms, 5s or 1m30s", text)
	}
	*d = duration(v)
	return nil
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// exitError carries an exit code that has been explained already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Run runs the command line and returns the exit code. args are without the
// program's name, env as os.Environ gives it.
func Run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	redis.SetLogger(noLog{})
	if attack.ChildMain() {
		return exitOK
	}
	a := &app{
		ctx: ctx, env: newEnvironment(env), stdin: stdin, stdout: stdout,
		stderr: &lockedWriter{w: stderr}, rawStderr: stderr, flags: &grammar{},
	}
	if i := slices.Index(args, "--"); i >= 0 {
		// The command after it is nobody's business but the child's.
		args, a.command, a.dashes = args[:i], args[i+1:], true
	}
	defer func() {
		if p := recover(); p != nil {
			helped, ok := p.(exitError) // kong prints help and exits
			if !ok {
				panic(p)
			}
			code = int(helped)
		}
	}()
	parser, err := a.parser()
	if err != nil {
		fmt.Fprintln(a.stderr, "redlock:", err)
		return exitConfig
	}
	if len(args) == 0 && !a.dashes {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		// A mistake after --json has not kept it from being read.
		a.flags.JSON = a.flags.JSON || slices.Contains(args, "--json")
		return a.exit(&usageError{hide(err.Error(), args) + "; see redlock --help"})
	}
	a.given = given(parsed)
	a.warnOfPasswords(args)
	return a.exit(parsed.Run())
}

// parser reads the command line into the flags.
func (a *app) parser() (*kong.Kong, error) {
	return kong.New(a.flags,
		kong.Name("redlock"),
		kong.Description("A lock that lives on a majority of independent Redis masters.\n\n"+
			"Every global flag has a variable: REDLOCK_NODES, REDLOCK_TTL, REDLOCK_MAX_TTL and so on. "+
			"Passwords belong into REDLOCK_PASSWORD or REDLOCK_PASSWORD_FILE, those of sentinels into "+
			"REDLOCK_SENTINEL_PASSWORD or REDLOCK_SENTINEL_PASSWORD_FILE; not on the command line."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(a.stdout, a.stderr), kong.Exit(func(c int) { panic(exitError(c)) }),
		kong.Resolvers(a.env), kong.Bind(a),
	)
}

// noLog keeps go-redis from writing lines of its own: what fails is told as an
// error, once.
type noLog struct{}

// Printf is for go-redis.
func (noLog) Printf(context.Context, string, ...any) {}
