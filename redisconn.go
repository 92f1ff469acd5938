package redlock

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// redisConn runs batches on one connection of go-redis. It is the hot path:
// the commands of a call are made once and used again, with arguments that
// point at the slot's fields, so a call costs what go-redis needs to read its
// reply and nothing else.
type redisConn struct {
	socket
	client *redis.Client
	conn   *redis.Conn
	pipe   redis.Pipeliner

	cmds  []redis.Cmder
	used  [opCount]int
	slots [opCount][]*slot
	first []int // per call, the index of its first command in cmds
	where []*slot
}

// opCount bounds the ops of package seam.
const opCount = int(seam.Seals) + 1

// errUnread marks a command whose reply was not read: after some replies
// go-redis reports an error of the batch and none of the command.
var errUnread = errors.New("redlock: no reply")

// Do runs calls as one pipeline.
func (c *redisConn) Do(calls []seam.Call, replies []seam.Reply) error {
	c.reset()
	for i := range calls {
		c.first = append(c.first, len(c.cmds))
		s := c.slot(&calls[i])
		c.where = append(c.where, s)
		s.load(&calls[i])
		for _, cmd := range s.cmds {
			cmd.SetErr(errUnread)
			c.cmds = append(c.cmds, cmd)
		}
	}
	err := c.exec()
	again := -1
	for i := range calls {
		c.where[i].read(&calls[i], &replies[i])
		if again < 0 && isNoScript(&replies[i]) {
			again = i
		}
	}
	if err == nil && again >= 0 {
		err = c.rerun(calls, replies, again)
	}
	if err == nil {
		err = c.scan(calls, replies)
	}
	return err
}

func (c *redisConn) reset() {
	c.cmds, c.first, c.where = c.cmds[:0], c.first[:0], c.where[:0]
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
func (c *redisConn) exec() error {
	ctx := context.Background() // the client's own timeouts bound it
	if len(c.cmds) == 1 {
		err := c.conn.Process(ctx, c.cmds[0])
		if err == nil || errors.Is(err, redis.Nil) || isRefusal(err) {
			return nil
		}
		return err
	}
	if err := c.pipe.BatchProcess(ctx, c.cmds...); err != nil {
		return err
	}
	_, err := c.pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	if !isRefusal(err) {
		return err
	}
	// A refusal of the first command, say READONLY, is reported as the error of
	// the batch. All replies were read if the last command has one.
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

func isNoScript(r *seam.Reply) bool {
	return r.Code == seam.Error && r.Err != nil && redis.HasErrorPrefix(r.Err, "NOSCRIPT")
}

// rerun sends the scripts of a batch again, from the first that the server did
// not know, with their source. A script that ran already runs twice: that is
// why all are idempotent, and a Release counts as done if either run says so.
func (c *redisConn) rerun(calls []seam.Call, replies []seam.Reply, from int) error {
	c.cmds = c.cmds[:0]
	var redone []int
	for i := from; i < len(calls); i++ {
		s := c.where[i]
		if !s.scripted(&calls[i]) {
			continue
		}
		redone = append(redone, i)
		s.load(&calls[i])
		s.cmd().Args()[0], s.cmd().Args()[1] = "eval", s.script().source
		s.cmd().SetErr(errUnread)
		c.cmds = append(c.cmds, s.cmd())
	}
	err := c.exec()
	for _, i := range redone {
		s := c.where[i]
		was := replies[i]
		replies[i] = seam.Reply{}
		s.read(&calls[i], &replies[i])
		if was.Code == seam.Deleted && replies[i].Code == seam.Gone {
			replies[i] = was
		}
		s.cmd().Args()[0], s.cmd().Args()[1] = "evalsha", s.script().sha
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
