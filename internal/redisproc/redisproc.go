// Package redisproc starts real redis-servers as child processes on loopback,
// for tests, the demo and the benchmark, and breaks them on request. A server
// dies with the process that started it.
package redisproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options say how a server is started. The zero Options are one without
// persistence on a free port.
type Options struct {
	AppendOnly bool     // appendonly yes, appendfsync always
	Args       []string // more arguments of redis-server
	Clock      *Clock   // its wall clock; nil is the machine's

	sentinel string // what a sentinel watches, as lines of its file; then the rest does not count
}

// Server is one redis-server. Its methods are safe for concurrent use.
type Server struct {
	path string
	opt  Options
	dir  string
	port int

	life sync.Mutex // one Restart or Close at a time

	mu   sync.Mutex
	proc *process
}

// process is one run of a server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
}

// portTaken is in the log of a server that could not bind its port.
const portTaken = "Address already in use"

// Find is the path of redis-server, or an error that says how to get it.
func Find() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redis-server is not installed (apt-get install redis-server): %w", err)
	}
	return path, nil
}

// Start starts a server and waits until it answers.
func Start(ctx context.Context, opt Options) (*Server, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, opt: opt, dir: dir}
	// A port that is free now may be taken when the server binds it.
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), portTaken) {
			break
		}
		_ = os.Remove(filepath.Join(dir, sentinelFile)) // it has the port
	}
	return nil, errors.Join(err, s.Close())
}

// StartN starts n servers with the same options.
func StartN(ctx context.Context, n int, opt Options) ([]*Server, error) {
	var all []*Server
	for range n {
		s, err := Start(ctx, opt)
		if err != nil {
			for _, s := range all {
				err = errors.Join(err, s.Close())
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr is the server's address, which it keeps over restarts.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// PID is the process id, 0 while the server is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	select {
	case <-s.proc.done: // it ended by itself
		return 0
	default:
		return s.proc.cmd.Process.Pid
	}
}

// logPath is where all that the server says goes. It is its standard output,
// as a server whose arguments are wrong ends before it has opened a logfile.
func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// start runs the process and waits for PONG.
func (s *Server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--enable-debug-command", "yes", "--appendonly", "no",
	}
	if s.opt.AppendOnly {
		args = append(args[:len(args)-1], "yes", "--appendfsync", "always")
	}
	args = append(args, s.opt.Args...)
	if s.opt.sentinel != "" {
		if args, err = s.sentinelArgs(); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if s.opt.Clock != nil {
		cmd.Env = s.opt.Clock.environ()
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that forked
		// ends, so one is kept for as long as the child lives.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	if err := s.ready(ctx, p); err != nil {
		s.Kill()
		return fmt.Errorf("%w%s", err, s.lastLog())
	}
	return nil
}

// sentinelArgs makes a sentinel's file unless it has one: it keeps there what it
// knows.
func (s *Server) sentinelArgs() ([]string, error) {
	file := filepath.Join(s.dir, sentinelFile)
	if _, err := os.Stat(file); err != nil {
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s", s.port, s.dir, s.opt.sentinel)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return []string{file, "--sentinel"}, nil
}

const sentinelFile = "sentinel.conf"

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context, p *process) error {
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1_000_000, MaxActiveConns: 1,
		DialTimeout: time.Second, ReadTimeout: time.Second, Protocol: 2,
	})
	defer c.Close()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		// go-redis logs every dial that fails, so it is asked once one works.
		if nc, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
			_ = nc.Close()
			if c.Ping(ctx).Err() == nil && isProcess(c.Info(ctx, "server").Val(), p.cmd.Process.Pid) {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-p.done:
			return errors.New("redis-server ended at once")
		case <-limit.C:
			return errors.New("redis-server did not answer within 10 s")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isProcess reports whether INFO server is that process's: who answers on the
// port may be another server that took it before ours could.
func isProcess(info string, pid int) bool {
	return strings.Contains(info, "\r\nprocess_id:"+strconv.Itoa(pid)+"\r\n")
}

// lastLog is the end of the server's log, for an error.
func (s *Server) lastLog() string {
	const most = 600
	text, err := os.ReadFile(s.logPath())
	if err != nil || len(text) == 0 {
		return ""
	}
	end := string(text)
	if len(end) > most {
		_, end, _ = strings.Cut(end[len(end)-most:], "\n") // whole lines
	}
	return "; its log ends:\n" + strings.TrimSpace(end)
}

// signal sends a signal to the server if it runs.
func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.cmd.Process.Signal(sig)
	}
}

// Stop stops the server with SIGSTOP: it hangs until Cont.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Cont lets a stopped server go on.
func (s *Server) Cont() { s.signal(syscall.SIGCONT) }

// Kill ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	p := s.proc
	s.proc = nil
	s.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Restart kills the server, if it runs, and starts it on the same port: with
// what it persisted, or empty.
func (s *Server) Restart(ctx context.Context, empty bool) error {
	s.life.Lock()
	defer s.life.Unlock()
	s.Kill()
	if empty { // a SAVE, or having been a replica, leaves a dump.rdb
		for _, name := range []string{"appendonlydir", "dump.rdb", sentinelFile} {
			if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return s.start(ctx)
}

// Close kills the server and removes its folder.
func (s *Server) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	s.Kill()
	return os.RemoveAll(s.dir)
}
