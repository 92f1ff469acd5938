package memnode

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

var (
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	errReadOnly  = errors.New("READONLY You can't write against a read only replica.")
)

// Exec runs calls at once and in order, as the server does when it reads them
// from the session's connection. It is for simulators that drive a node from
// one goroutine; connections of Dialer come here too. The error is io.EOF when
// the session's connection is gone.
func (n *Node) Exec(s *Session, calls []seam.Call, replies []seam.Reply) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exec(s, calls, replies)
}

func (n *Node) exec(s *Session, calls []seam.Call, replies []seam.Reply) error {
	for i := range calls {
		if s.dead || n.down {
			return io.EOF
		}
		n.commands++
		if err := n.refusal(calls[i].Op); err != nil {
			replies[i] = seam.Reply{Code: seam.Error, Err: err}
			continue
		}
		replies[i] = n.call(s, &calls[i])
	}
	return nil
}

func (n *Node) refusal(op seam.Op) error {
	if n.refuseAll != nil {
		return n.refuseAll
	}
	return n.refuse[op]
}

func refused(err error) seam.Reply { return seam.Reply{Code: seam.Error, Err: err} }

// call runs one call.
func (n *Node) call(s *Session, c *seam.Call) seam.Reply {
	switch c.Op {
	case seam.Acquire:
		return n.acquire(c)
	case seam.Extend:
		return n.extend(c)
	case seam.Release:
		return n.release(c)
	case seam.Probe:
		return n.probe(c)
	case seam.Inspect:
		return n.inspect(c)
	case seam.Break:
		return n.breakUp(c)
	case seam.Check:
		r := seam.Reply{Code: seam.OK, Seal: n.text(c.SealKey), Quarantined: n.text(c.QuarantineKey) != ""}
		r.Master, r.Replid = !n.replica, n.replid
		return r
	case seam.Hello:
		return n.hello(s, c)
	case seam.Seal:
		return n.seal(c)
	case seam.Kill:
		for other := range n.sessions {
			if other.id == c.ClientID && (c.Addr == "" || other.addr == c.Addr) {
				n.cut(other)
			}
		}
		return seam.Reply{Code: seam.OK}
	case seam.Holds:
		for _, key := range n.withPrefix(c.Key) {
			if !strings.HasPrefix(key, "redlock:") {
				return seam.Reply{Code: seam.OK, Value: key}
			}
		}
		return seam.Reply{Code: seam.OK}
	case seam.Seals:
		return seam.Reply{Code: seam.OK, Values: n.withPrefix("redlock:seal:")}
	}
	return refused(errors.New("ERR unknown command"))
}

// acquire is SET NX PX, or acquire.lua with a label.
func (n *Node) acquire(c *seam.Call) seam.Reply {
	if n.replica {
		return refused(errReadOnly)
	}
	if _, ok := n.get(c.Key); ok {
		return seam.Reply{Code: seam.Held}
	}
	n.set(c.Key, c.Token, c.TTL)
	if c.LabelKey != "" {
		n.set(c.LabelKey, c.Label, c.TTL)
	}
	return seam.Reply{Code: seam.OK}
}

// extend is extend.lua.
func (n *Node) extend(c *seam.Call) seam.Reply {
	if c.NotAfter > 0 {
		if now := n.micros(); now > c.NotAfter {
			return seam.Reply{Code: seam.Stale, Time: now}
		}
	}
	e, held := n.get(c.Key)
	r := seam.Reply{Code: seam.Mine}
	switch {
	case held && e.list:
		return refused(errWrongType)
	case held && e.value == c.Token:
		if n.pttl(c.Key) < c.TTL.Milliseconds() {
			if n.replica {
				return refused(errReadOnly)
			}
			n.expire(c.Key, c.TTL.Milliseconds())
		}
	case held:
		return seam.Reply{Code: seam.Other}
	default:
		mark, marked := n.get(c.MarkKey)
		if marked && mark.list {
			return refused(errWrongType)
		}
		if marked && mark.value == c.Token {
			return seam.Reply{Code: seam.Broken}
		}
		if n.replica {
			return refused(errReadOnly)
		}
		n.set(c.Key, c.Token, c.TTL)
		r.Code = seam.Readded
	}
	if c.LabelKey != "" {
		if n.replica {
			return refused(errReadOnly)
		}
		ms := max(c.TTL.Milliseconds(), n.pttl(c.Key))
		n.set(c.LabelKey, c.Label, time.Duration(ms)*time.Millisecond)
	}
	return r
}

// expire is PEXPIRE.
func (n *Node) expire(key string, ms int64) {
	if e, ok := n.get(key); ok {
		e.at = n.millis() + ms
		n.data[key] = e
	}
}

// release is release.lua.
func (n *Node) release(c *seam.Call) seam.Reply {
	e, held := n.get(c.Key)
	switch {
	case held && e.list:
		return refused(errWrongType)
	case !held || e.value != c.Token:
		return seam.Reply{Code: seam.Gone}
	}
	keys := []string{c.Key}
	if c.LabelKey != "" {
		keys = append(keys, c.LabelKey)
	}
	for _, key := range keys {
		keep := c.KeepFor.Milliseconds()
		if keep != 0 && n.pttl(key) <= keep {
			continue
		}
		if n.replica {
			return refused(errReadOnly)
		}
		if keep == 0 {
			delete(n.data, key)
		} else {
			n.expire(key, keep)
		}
	}
	return seam.Reply{Code: seam.Deleted}
}

func (n *Node) kind(key string) string {
	switch e, ok := n.get(key); {
	case !ok:
		return "none"
	case e.list:
		return "list"
	}
	return "string"
}

func (n *Node) probe(c *seam.Call) seam.Reply {
	return seam.Reply{Code: seam.OK, Type: n.kind(c.Key), TTL: pttlOf(n.pttl(c.Key))}
}

// text is the string at a key, "" for none or another type.
func (n *Node) text(key string) string {
	if e, ok := n.get(key); ok && !e.list {
		return e.value
	}
	return ""
}

// inspect is inspect.lua.
func (n *Node) inspect(c *seam.Call) seam.Reply {
	r := n.probe(c)
	if r.Type == "string" {
		r.Value, r.Label = n.text(c.Key), n.text(c.LabelKey)
	}
	return r
}

// breakUp is break.lua.
func (n *Node) breakUp(c *seam.Call) seam.Reply {
	if n.replica {
		return refused(errReadOnly)
	}
	n.set(c.MarkKey, c.Token, c.TTL)
	e, held := n.get(c.Key)
	switch {
	case !held:
		return seam.Reply{Code: seam.Gone}
	case e.list:
		return refused(errWrongType)
	case e.value != c.Token:
		return seam.Reply{Code: seam.Other, Value: e.value}
	}
	delete(n.data, c.Key)
	delete(n.data, c.LabelKey)
	return seam.Reply{Code: seam.Deleted}
}

// seal is seal.lua.
func (n *Node) seal(c *seam.Call) seam.Reply {
	e, ok := n.get(c.SealKey)
	if ok && e.list {
		return refused(errWrongType)
	}
	r := seam.Reply{Code: seam.Other}
	if c.Value != "" && (c.Force || e.value == c.Expect) {
		if n.replica {
			return refused(errReadOnly)
		}
		n.set(c.SealKey, c.Value, 0)
		if c.TTL > 0 {
			n.set(c.QuarantineKey, "1", c.TTL)
		}
		r.Code = seam.OK
	}
	n.sealed(c, &r)
	return r
}

// sealed fills in what stands at the seal and is left of the quarantine.
func (n *Node) sealed(c *seam.Call, r *seam.Reply) {
	r.Seal = n.text(c.SealKey)
	left := max(0, n.pttl(c.QuarantineKey))
	r.Quarantined, r.QuarantineTTL = left > 0, time.Duration(left)*time.Millisecond
}

// hello is the connection check.
func (n *Node) hello(s *Session, c *seam.Call) seam.Reply {
	if e, ok := n.get(c.SealKey); ok && e.list {
		return refused(errWrongType)
	}
	r := seam.Reply{Code: seam.OK, Master: !n.replica, Replid: n.replid}
	n.sealed(c, &r)
	r.Facts = &seam.Facts{
		ClientID: s.id, Addr: s.addr, RunID: n.runID, Version: "7.0.15", Mode: "standalone",
		Time: n.micros(), MaxMemory: n.maxMemory, Policy: n.policy, MinReplicas: -1,
	}
	return r
}
