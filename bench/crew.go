package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
)

// childEnv makes this binary a client process of a crew.
const childEnv = "REDLOCK_BENCH_CHILD"

// spec is what a client process is told first.
type spec struct {
	Impl  string   `json:"impl"`
	Addrs []string `json:"addrs"`
}

// ready is its answer.
type ready struct {
	Err string `json:"err"`
}

// childMain reports whether this process is a client; then its work is done.
func childMain() bool {
	if os.Getenv(childEnv) == "" {
		return false
	}
	quiet()
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench client:", err)
		os.Exit(1)
	}
	return true
}

// serve does one job after the other until its input ends, which it also does
// when the parent dies.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var s spec
	if err := from.Decode(&s); err != nil {
		return err
	}
	all := makers()
	i := slices.IndexFunc(all, func(m maker) bool { return m.name == s.Impl })
	if i < 0 {
		return fmt.Errorf("no implementation called %q", s.Impl)
	}
	l, err := all[i].open(ctx, s.Addrs)
	if err != nil {
		return errors.Join(err, to.Encode(ready{err.Error()}))
	}
	defer l.close()
	if err := to.Encode(ready{}); err != nil {
		return err
	}
	for {
		var j job
		if err := from.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := to.Encode(work(ctx, l, &j)); err != nil {
			return err
		}
	}
}

// crew is one implementation in several processes.
type crew []*client

type client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	to  *json.Encoder
	out *json.Decoder
}

func newCrew(ctx context.Context, m maker, addrs []string, k int) (c crew, err error) {
	for range k {
		one, err := newClient(ctx, spec{m.name, addrs})
		if err != nil {
			c.close()
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		c = append(c, one)
	}
	return c, nil
}

func newClient(ctx context.Context, s spec) (*client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &client{cmd, in, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
	var r ready
	if err = c.to.Encode(s); err == nil {
		err = c.out.Decode(&r)
	}
	if err == nil && r.Err != "" {
		err = errors.New(r.Err)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *client) do(j *job) (*outcome, error) {
	if err := c.to.Encode(j); err != nil {
		return nil, err
	}
	o := new(outcome)
	return o, c.out.Decode(o)
}

// close ends the client's input, and with it the client.
func (c *client) close() error {
	_ = c.in.Close() // it may be gone already
	return c.cmd.Wait()
}

// do gives each process its job, and every worker of all of them a number of
// its own: those of the first process come first.
func (c crew) do(jobs []*job) (*outcome, error) {
	each, errs := make([]*outcome, len(jobs)), make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() { each[i], errs[i] = c[i].do(j) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all, first := new(outcome), 0
	for i, o := range each {
		for k := range o.Stays {
			o.Stays[k].Worker += first
		}
		first += jobs[i].Workers
		all.merge(o)
	}
	return all, nil
}

// all gives every process the same job.
func (c crew) all(j job) (*outcome, error) {
	jobs := make([]*job, len(c))
	for i := range jobs {
		jobs[i] = &j
	}
	return c.do(jobs)
}

func (c crew) close() {
	for _, one := range c {
		_ = one.close()
	}
}
