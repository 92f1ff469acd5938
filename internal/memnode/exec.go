package memnode

import (
	"errors"
	"io"
	"strings"

	"github.com/redlock-go/redlock/internal/seam"
)

// What a server of 7.0 says.
var (
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	errReadOnly  = errors.New("READONLY You can't write against a read only replica.") //nolint:revive,staticcheck // as it says it
	errExpire    = errors.New("ERR invalid expire time in 'set' command")
)

// Exec runs calls at once and in order, as the server does when it reads them
// from the session's connection. It is for simulators that drive a node from
// one goroutine, which have their own idea of waiting: Hang, Delay and
// LoseReplies do not show here. Connections of Dialer come here too. The error
// is io.EOF when the session's connection is gone.
func (n *Node) Exec(s *Session, calls []seam.Call, replies []seam.Reply) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exec(s, calls, replies)
}

func (n *Node) exec(s *Session, calls []seam.Call, replies []seam.Reply) error {
	if s.dead {
		return io.EOF
	}
	for i := range calls {
		n.commands++
		n.tick()
		if err := n.refusal(calls[i].Op); err != nil {
			replies[i] = refused(err)
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
		return n.check(c)
	case seam.Hello:
		return n.hello(s, c)
	case seam.Seal:
		return n.seal(c)
	case seam.Kill:
		n.kill(s, c)
		return seam.Reply{Code: seam.OK}
	case seam.Holds:
		for _, key := range n.withPrefix(c.Key) {
			if key = strings.TrimPrefix(key, c.Tag); !strings.HasPrefix(key, "redlock:") {
				return seam.Reply{Code: seam.OK, Value: key}
			}
		}
		return seam.Reply{Code: seam.OK}
	case seam.Seals:
		return seam.Reply{Code: seam.OK, Values: n.withPrefix("redlock:seal:")}
	case seam.Register:
		return n.enlist(c)
	case seam.Unregister:
		return n.unlist(c)
	case seam.PassOn:
		return n.passOn(c)
	case seam.Raise:
		return n.raise(c)
	case seam.Leave:
		return n.leave(c)
	}
	return refused(errors.New("ERR unknown command"))
}

// probe is TYPE and PTTL.
func (n *Node) probe(c *seam.Call) seam.Reply {
	kind := "string"
	switch e, ok := n.get(c.Key); {
	case !ok:
		kind = "none"
	case e.list:
		kind = "list"
	case e.waiters != nil:
		kind = "zset"
	}
	return seam.Reply{Code: seam.OK, Type: kind, TTL: pttlOf(n.pttl(c.Key))}
}

// check is MGET, for which a key of another type is no key, and INFO
// replication.
func (n *Node) check(c *seam.Call) seam.Reply {
	seal, _, _ := n.text(c.SealKey)
	quarantine, _, _ := n.text(c.QuarantineKey)
	return seam.Reply{Code: seam.OK, Seal: seal, Quarantined: quarantine != "", Master: !n.replica, Replid: n.replid}
}

// hello is the connection check.
func (n *Node) hello(s *Session, c *seam.Call) seam.Reply {
	stands, _, err := n.text(c.SealKey)
	if err != nil {
		return refused(err)
	}
	r := seam.Reply{Code: seam.OK, Master: !n.replica, Replid: n.replid}
	n.sealed(c, stands, &r)
	r.Facts = &seam.Facts{
		ClientID: s.id, Addr: s.addr, RunID: n.runID, Version: "7.0.15", Mode: "standalone",
		Time: n.micros, MaxMemory: n.maxMemory, Policy: n.policy,
		AOF:         true, // Kill and Start lose nothing
		MinReplicas: -1, UptimeSecond: int64(n.now().Sub(n.born).Seconds()),
	}
	return r
}

// kill is CLIENT KILL, which spares the connection that it came by. Without an
// Addr, where a server does not tell addresses, the id alone decides.
func (n *Node) kill(s *Session, c *seam.Call) {
	for other := range n.sessions {
		if other != s && other.id == c.ClientID && (c.Addr == "" || other.addr == c.Addr) {
			n.cut(other)
		}
	}
}
