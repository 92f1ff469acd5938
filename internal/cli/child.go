package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the command that runs under the lease, in a process group of its own.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	tty  int           // the terminal whose foreground it is; -1 for none
}

// start starts a command. Arguments go to it byte for byte, without a shell.
func (a *app) start(argv, env []string) (*child, error) {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // running it is what the user asks for; the lease bounds it
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.rawStderr
	cmd.WaitDelay = time.Second // a grandchild that keeps a pipe open does not keep the lock
	c := &child{cmd: cmd, done: make(chan struct{}), tty: terminal(a.stdin)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.tty >= 0 {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, c.tty
	}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the *thread* that forked
		// ends, so this one is kept for as long as the child lives.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			c.takeTerminal()
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// signal sends a signal to the whole process group.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// code is the exit status as a shell gives it.
func (c *child) code() int {
	state, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && state.Signaled() {
		return exitSignal + int(state.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// terminal is the descriptor of a terminal that this process is the foreground
// of, -1 otherwise.
func terminal(in any) int {
	f, ok := in.(*os.File)
	if !ok {
		return -1
	}
	fd := int(f.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || group != syscall.Getpgrp() {
		return -1
	}
	return fd
}

// takeTerminal makes this process the foreground again. It is in the background
// when it asks, for which the terminal would stop it.
func (c *child) takeTerminal() {
	if c.tty < 0 {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	for {
		err := unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, syscall.Getpgrp())
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
