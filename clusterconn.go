package redlock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// bucketConn is a connection to the master of a bucket. It begins every key with
// the bucket's tag, and knows what a Cluster's refusals mean.
type bucketConn struct {
	conn   seam.Conn
	f      *fleet
	k      int
	addr   string
	tag    string
	tagged []seam.Call
}

// Do runs the calls on the bucket's keys. A redirection is an answer like any
// other refusal: following it would run a call on a server that the closing
// check and the lane's debts know nothing of.
func (c *bucketConn) Do(calls []seam.Call, replies []seam.Reply) error {
	clear(c.tagged)
	c.tagged = append(c.tagged[:0], calls...)
	for i := range c.tagged {
		tagCall(&c.tagged[i], c.tag)
	}
	if len(calls) > 0 && calls[0].Op == seam.Hello {
		end, err := c.f.turn(c.addr)
		if err != nil {
			return err
		}
		defer end()
	}
	err := c.conn.Do(c.tagged, replies)
	moved := err != nil && !isTimeout(err)
	for i := range replies {
		r := &replies[i]
		if r.Code == seam.Error {
			r.Err = clusterRefusal(r.Err)
			moved = moved || dropsConn(r.Err)
		}
		moved = moved || r.Code == seam.OK && calls[i].Op == seam.Check && !r.Master
	}
	if moved {
		c.f.gone(c.addr, c)
	}
	return err
}

// Close ends the connection.
func (c *bucketConn) Close() {
	c.f.mu.Lock()
	delete(c.f.conns, c)
	c.f.mu.Unlock()
	c.conn.Close()
}

// tagCall puts the tag before every key of a call. A test holds it to all fields
// of a Call that are keys.
func tagCall(c *seam.Call, tag string) {
	c.Tag = tag
	for _, key := range [...]*string{&c.Key, &c.LabelKey, &c.MarkKey, &c.SealKey, &c.QuarantineKey, &c.WakeKey, &c.FenceKey,
		&c.QueueKey, &c.EndsKey, &c.TicketKey} {
		if *key != "" || key == &c.Key && c.Op == seam.Holds {
			*key = tag + *key
		}
	}
	also := c.Also
	c.Also = nil // the caller's stays as it is
	for _, n := range also {
		for _, key := range [...]*string{&n.Key, &n.LabelKey, &n.MarkKey, &n.FenceKey, &n.WakeKey, &n.QueueKey, &n.EndsKey} {
			if *key != "" {
				*key = tag + *key
			}
		}
		c.Also = append(c.Also, n)
	}
}

// slotError is a Cluster's word that a server does not serve the slot now.
type slotError struct {
	err   error
	what  string
	moves bool // another server does: the connection is dropped, and the owner looked up
}

func (e *slotError) Error() string { return e.err.Error() + " (" + e.what + ")" }
func (e *slotError) Unwrap() error { return e.err }

// clusterRefusal tells the refusals that only a Cluster has from others.
func clusterRefusal(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, rule := range [...]struct {
		word, what string
		moves      bool
	}{
		{"MOVED ", "the slot has another owner now, which is looked up; the vote is back when that one is out of quarantine", true},
		{"CLUSTERDOWN ", "the Cluster does not serve the slot; the vote is back when it does", true},
		{"ASK ", "the slot is being moved to another master; the vote is back when that is done", false},
		{"TRYAGAIN ", "the slot is being moved to another master; the vote is back when that is done", false},
	} {
		if strings.HasPrefix(text, rule.word) {
			return &slotError{err, rule.what, rule.moves}
		}
	}
	if strings.Contains(text, "cluster support disabled") {
		return &ConfigError{What: "refused", Value: text, Rule: "the server is no member of a Redis Cluster; use Master (redis://) for it"}
	}
	return err
}

// clusterNodes is CLUSTER NODES.
func (c *redisConn) clusterNodes() (string, error) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(c.timeout))
	defer cancel()
	text, err := c.conn.ClusterNodes(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return "", fmt.Errorf("%w (CLUSTER NODES is needed, to find the masters)", err)
	}
	return text, err
}

// wantsNames says that certificates are checked against the nodes' names.
func (c *cluster) wantsNames() bool {
	w, ok := c.wire.(*redisWire)
	return ok && w.base.TLSConfig != nil && w.base.TLSConfig.ServerName == ""
}
