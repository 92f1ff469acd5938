package redlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// redisConn runs batches on one connection of go-redis. It is the hot path:
// the commands of a call are made once and used again, with arguments that
// point at the slot's fields, so a call costs what go-redis needs to read its
// reply and nothing else.
type redisConn struct {
	socket
	client  *redis.Client
	conn    *redis.Conn
	run     redis.ProcessPipelineHook
	timeout time.Duration
	ready   bool // OnConnect ran: the handshake is done

	cmds  []redis.Cmder
	used  [opCount]int
	slots [opCount][]*slot
	where []*slot // per call
}

// opCount bounds the ops of package seam.
const opCount = seam.Ops

// errUnread marks a command whose reply was not read: after some replies
// go-redis reports an error of the batch and none of the command.
var errUnread = errors.New("redlock: no reply")

// Do runs calls as one pipeline. The two ops that take a round trip per page of
// keys, which only Init and Check use, stand between pipelines, so that the
// order is kept.
func (c *redisConn) Do(calls []seam.Call, replies []seam.Reply) error {
	for len(calls) > 0 {
		n := 0
		for n < len(calls) && calls[n].Op != seam.Holds && calls[n].Op != seam.Seals {
			n++
		}
		if n > 0 {
			if err := c.batch(calls[:n], replies[:n]); err != nil {
				return err
			}
		}
		if n < len(calls) {
			if err := c.scan(&calls[n], &replies[n]); err != nil {
				return err
			}
			n++
		}
		calls, replies = calls[n:], replies[n:]
	}
	return nil
}

// batch runs calls as one pipeline, and as a second one what met a server that
// has forgotten the scripts.
func (c *redisConn) batch(calls []seam.Call, replies []seam.Reply) error {
	deadline := time.Now().Add(c.timeout)
	c.reset()
	for i := range calls {
		s := c.slot(&calls[i])
		c.where = append(c.where, s)
		s.load(&calls[i])
		c.queue(s)
	}
	err := c.exec(context.Background()) // the client's own timeouts bound it
	again := -1
	for i := range calls {
		c.where[i].read(&replies[i])
		if again < 0 && isNoScript(&replies[i]) {
			again = i
		}
	}
	if err == nil && again >= 0 {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		err = c.rerun(ctx, calls, replies, again)
	}
	return err
}

// queue adds the commands of a slot to what exec sends.
func (c *redisConn) queue(s *slot) {
	for _, cmd := range s.cmds {
		cmd.SetErr(errUnread)
		c.cmds = append(c.cmds, cmd)
	}
}

func (c *redisConn) reset() {
	c.cmds, c.where = c.cmds[:0], c.where[:0]
	clear(c.used[:])
}

// slot takes a set of commands for a call, a used one if there is any.
func (c *redisConn) slot(call *seam.Call) *slot {
	op := call.Op
	k := c.used[op]
	c.used[op]++
	if k == len(c.slots[op]) {
		c.slots[op] = append(c.slots[op], newSlot(op))
	}
	return c.slots[op][k]
}

// exec sends the commands. A server's refusal of one of them is no error.
func (c *redisConn) exec(ctx context.Context) error {
	err := c.run(ctx, c.cmds)
	if err == nil || err == redis.Nil { //nolint:errorlint // the bare one is the first command's answer
		return nil
	}
	if !isRefusal(err) {
		return err
	}
	// A refusal of a command is reported as the error of the batch. All replies
	// were read if the last command has one.
	if last := c.cmds[len(c.cmds)-1]; errors.Is(last.Err(), errUnread) {
		return err
	}
	return nil
}

// isRefusal tells what the server said from what befell the connection. After a
// READONLY go-redis calls the connection bad and repeats that reply for every
// later command, which was never sent.
func isRefusal(err error) bool {
	var refusal redis.Error
	return errors.As(err, &refusal) && !strings.HasPrefix(err.Error(), "redis: Conn is in a bad state")
}

// pipelineTap is a hook of go-redis that adds nothing and keeps the function below
// it. That one runs a batch from the slice that it is given; a Pipeline would
// allocate one per batch and keep none.
type pipelineTap struct{ run redis.ProcessPipelineHook }

func (*pipelineTap) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelineTap) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is called for plain pipelines first, then for MULTI.
func (t *pipelineTap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	if t.run == nil {
		t.run = next
	}
	return next
}

func isNoScript(r *seam.Reply) bool {
	return r.Code == seam.Error && r.Err != nil && redis.HasErrorPrefix(r.Err, "NOSCRIPT")
}

// rerun sends the scripts that the server did not know again, with their source,
// so that it knows them from then on. From the first of them on, what frees a
// lock runs again too, lest an extend that comes late brings back what a release
// behind it has deleted; it counts as done if either run says so. So does the
// closing check, which has to stand behind all. Nothing else runs twice: of an
// acquire, extend or seal that had its effect the second run would tell another
// story (Held, Mine instead of Readded, not written).
func (c *redisConn) rerun(ctx context.Context, calls []seam.Call, replies []seam.Reply, from int) error {
	c.cmds = c.cmds[:0]
	var redone []int
	for i := from; i < len(calls); i++ {
		op := calls[i].Op
		if !isNoScript(&replies[i]) && op != seam.Release && op != seam.Break && op != seam.Check {
			continue
		}
		s := c.where[i]
		redone = append(redone, i)
		s.load(&calls[i])
		if op != seam.Check {
			args := s.cmd().Args()
			args[0], args[1] = "eval", s.script().source
		}
		c.queue(s)
	}
	err := c.exec(ctx)
	for _, i := range redone {
		s, was := c.where[i], replies[i]
		replies[i] = seam.Reply{}
		s.read(&replies[i])
		if was.Code == seam.Deleted {
			replies[i] = was
		}
		if calls[i].Op != seam.Check {
			args := s.cmd().Args()
			args[0], args[1] = "evalsha", s.script().sha
		}
	}
	return err
}

// Close ends the connection, also under a batch that is out.
func (c *redisConn) Close() {
	c.mu.Lock()
	closed, nc := c.closed, c.net
	c.closed = true
	c.mu.Unlock()
	if closed {
		return
	}
	if nc != nil {
		_ = nc.Close()
	}
	_ = c.client.Close()
}
