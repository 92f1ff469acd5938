package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/judge"
)

// fleet is the client processes of a run.
type fleet struct {
	r       *run
	exe     string
	dir     string                  // of their histories
	onDeath context.CancelCauseFunc // one ended that was not told to

	mu      sync.Mutex
	now     []*process // by client
	all     []*process // the dead too
	closing bool
}

// process is one life of a client.
type process struct {
	name  string
	file  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *saying
	done  chan struct{} // closed when it has ended and was waited for
	ended time.Duration // on the history's clock, once done
	err   error         // of Wait, once done
	asked bool          // we killed it; under fleet.mu
}

// clientName is how faults and histories call a client.
func clientName(i int) string { return fmt.Sprint("client", i+1) }

func newFleet(r *run) (*fleet, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-chaos-")
	if err != nil {
		return nil, err
	}
	return &fleet{r: r, exe: exe, dir: dir, now: make([]*process, r.c.Clients)}, nil
}

// saying is what a client prints: its grants so far, a number a line.
type saying struct {
	mu    sync.Mutex
	last  int
	heard chan struct{} // closed with the first line
	rest  []byte
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		s.rest = rest
		n, err := strconv.Atoi(string(line))
		if err != nil {
			continue // a test binary has a last word of its own
		}
		if s.last = n; s.heard != nil {
			close(s.heard)
			s.heard = nil
		}
	}
}

func (s *saying) grants() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-2000):]
	return len(p), nil
}

// environ is the environment of a client: all but what bears passwords, which
// come with its order.
func environ() []string {
	var env []string
	for _, line := range os.Environ() {
		switch name, _, _ := strings.Cut(line, "="); name {
		case "REDLOCK_NODES", "REDLOCK_PASSWORD", "REDLOCK_PASSWORD_FILE", "REDLOCK_SENTINEL_PASSWORD", "REDLOCK_SENTINEL_PASSWORD_FILE":
		default:
			env = append(env, line)
		}
	}
	return append(env, childEnv+"=1")
}

// order is what client i is told, in its life-th life.
func (f *fleet) order(i, life int) order {
	o := order{
		Client: clientName(i), Prefix: f.r.field.prefix, Names: f.r.c.Names, Workers: f.r.c.Workers, TTL: f.r.c.TTL,
		NodeTimeout: f.r.c.NodeTimeout, Profile: f.r.c.Profile, Origin: f.r.clock.origin,
	}
	if life > 1 {
		o.Client += fmt.Sprintf("#%d", life)
	}
	o.File = filepath.Join(f.dir, o.Client+".jsonl")
	for _, m := range f.r.field.members {
		o.Nodes = append(o.Nodes, doorway{m.url, m.proxy.Addr()})
	}
	return o
}

// start starts client i.
func (f *fleet) start(i int) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	life := 1
	for _, p := range f.all {
		if name, _, _ := strings.Cut(p.name, "#"); name == clientName(i) {
			life++
		}
	}
	o := f.order(i, life)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	said, last := &saying{heard: make(chan struct{})}, new(tail)
	cmd := exec.Command(f.exe) //nolint:noctx // it ends when its input does, or by close
	cmd.Env, cmd.Stdout, cmd.Stderr = environ(), said, last
	cmd.SysProcAttr = ofItsOwn()
	p := &process{name: o.Client, file: o.File, cmd: cmd, said: said, done: make(chan struct{})}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The kernel sends the death signal when the *thread* that forked
		// ends, so this one is kept for as long as the child lives.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		p.ended = f.r.clock.now()
		f.mourn(p, err, last)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	f.now[i], f.all = p, append(f.all, p)
	_, err = p.stdin.Write(append(text, '\n'))
	return p, err
}

// mourn notes how a client ended.
func (f *fleet) mourn(p *process, err error, last *tail) {
	f.mu.Lock()
	asked, closing, tell := p.asked, f.closing, f.onDeath
	f.mu.Unlock()
	switch {
	case asked:
		return
	case err == nil && closing:
		return
	case err == nil:
		err = errors.New("it ended too early")
	}
	p.err = fmt.Errorf("attack: %s: %w: %s", p.name, err, strings.TrimSpace(string(last.text)))
	if tell != nil {
		tell(p.err)
	}
}

// startAll starts the clients and waits until they are at work.
func (f *fleet) startAll(ctx context.Context) error {
	for i := range f.now {
		p, err := f.start(i)
		if err != nil {
			return err
		}
		p.said.mu.Lock()
		heard := p.said.heard
		p.said.mu.Unlock()
		if heard == nil {
			continue
		}
		limit := time.NewTimer(20 * time.Second)
		select {
		case <-heard:
		case <-p.done:
			err = p.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-limit.C:
			err = fmt.Errorf("attack: %s has not begun within 20 s", p.name)
		}
		limit.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// grants are those of all clients so far.
func (f *fleet) grants() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, p := range f.all {
		n += p.said.grants()
	}
	return n
}

// current is the life that client i has now.
func (f *fleet) current(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now[i]
}

// pause stops a client as a virtual machine stops its guest, resume lets it go
// on.
func (f *fleet) pause(i int) error { return f.current(i).cmd.Process.Signal(syscall.SIGSTOP) }

func (f *fleet) resume(i int) { _ = f.current(i).cmd.Process.Signal(syscall.SIGCONT) }

// replace kills a client and starts another in its place.
func (f *fleet) replace(i int) error {
	f.kill(f.current(i))
	_, err := f.start(i)
	return err
}

func (f *fleet) kill(p *process) {
	f.mu.Lock()
	p.asked = true
	f.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.stdin.Close()
}

// stopAll tells the clients to end, waits, and gives what they saw.
func (f *fleet) stopAll() (judge.History, error) {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	for _, p := range f.now {
		_ = p.stdin.Close()
	}
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for _, p := range f.now {
		select {
		case <-p.done:
			if p.err != nil {
				return nil, p.err
			}
		case <-limit.C:
			return nil, fmt.Errorf("attack: %s did not end within 20 s", p.name)
		}
	}
	var all []judge.History
	for _, p := range f.all {
		text, err := os.ReadFile(p.file)
		if err != nil {
			if p.asked && errors.Is(err, os.ErrNotExist) {
				continue // killed before it had begun
			}
			return nil, err
		}
		h, err := readHistory(text, p.ended)
		if err != nil {
			return nil, fmt.Errorf("attack: history of %s: %w", p.name, err)
		}
		all = append(all, h)
	}
	return judge.Merge(all...), nil
}

// close kills what still runs, and removes the histories: what is worth keeping
// has been kept.
func (f *fleet) close() {
	for _, p := range f.now {
		if p != nil {
			f.kill(p)
		}
	}
	_ = os.RemoveAll(f.dir)
}
