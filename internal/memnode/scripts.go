package memnode

import (
	"time"

	"github.com/redlock-go/redlock/internal/seam"
)

// Each function here is one of the scripts, command for command. A command that
// is refused ends the script and leaves what was written before it, as on a
// server.

// acquire is SET NX PX, or acquire.lua with a label. SET looks at NX last.
func (n *Node) acquire(c *seam.Call) seam.Reply {
	if len(c.Also) > 0 {
		return n.acquireAll(c)
	}
	if c.QueueKey != "" {
		return n.acquireFair(c)
	}
	if c.FenceKey != "" {
		return n.acquireFenced(c)
	}
	ms := c.TTL.Milliseconds()
	if err := n.writable(ms); err != nil {
		return refused(err)
	}
	if _, held := n.get(c.Key); held {
		return seam.Reply{Code: seam.Held}
	}
	n.data[c.Key] = entry{value: c.Token, at: n.millis() + ms}
	if c.LabelKey != "" {
		n.data[c.LabelKey] = entry{value: c.Label, at: n.millis() + ms}
	}
	return seam.Reply{Code: seam.OK}
}

// writable says whether SET with PX ms is refused whatever stands at the key.
func (n *Node) writable(ms int64) error {
	switch {
	case n.replica:
		return errReadOnly
	case ms <= 0:
		return errExpire
	}
	return nil
}

// set is SET PX.
func (n *Node) set(key, value string, ms int64) error {
	if err := n.writable(ms); err != nil {
		return err
	}
	n.data[key] = entry{value: value, at: n.millis() + ms}
	return nil
}

// expire is PEXPIRE, which deletes where no time is left.
func (n *Node) expire(key string, ms int64) error {
	if n.replica {
		return errReadOnly
	}
	e, ok := n.get(key)
	switch {
	case !ok:
	case ms <= 0:
		delete(n.data, key)
	default:
		e.at = n.millis() + ms
		n.data[key] = e
	}
	return nil
}

// del is DEL.
func (n *Node) del(keys ...string) error {
	if n.replica {
		return errReadOnly
	}
	for _, key := range keys {
		delete(n.data, key)
	}
	return nil
}

// text is GET.
func (n *Node) text(key string) (value string, ok bool, err error) {
	e, ok := n.get(key)
	if e.list || e.waiters != nil {
		return "", false, errWrongType
	}
	return e.value, ok, nil
}

// extend is extend.lua.
func (n *Node) extend(c *seam.Call) seam.Reply {
	if len(c.Also) > 0 {
		return n.extendAll(c)
	}
	if c.NotAfter > 0 && n.micros > c.NotAfter {
		return seam.Reply{Code: seam.Stale, Time: n.micros}
	}
	code, err := n.holdOn(c)
	if err != nil {
		return refused(err)
	}
	if c.LabelKey != "" && (code == seam.Mine || code == seam.Readded) {
		ms := max(c.TTL.Milliseconds(), n.pttl(c.Key))
		if err := n.set(c.LabelKey, c.Label, ms); err != nil {
			return refused(err)
		}
	}
	return seam.Reply{Code: code}
}

// holdOn is what extend.lua does to the lock itself.
func (n *Node) holdOn(c *seam.Call) (seam.Code, error) {
	ms := c.TTL.Milliseconds()
	holder, held, err := n.text(c.Key)
	switch {
	case err != nil:
		return seam.Error, err
	case held && holder != c.Token:
		return seam.Other, nil
	case held && n.pttl(c.Key) < ms:
		return seam.Mine, n.expire(c.Key, ms)
	case held:
		return seam.Mine, nil
	}
	mark, marked, err := n.text(c.MarkKey)
	switch {
	case err != nil:
		return seam.Error, err
	case marked && mark == c.Token:
		return seam.Broken, nil
	}
	return seam.Readded, n.set(c.Key, c.Token, ms)
}

// release is release.lua.
func (n *Node) release(c *seam.Call) seam.Reply {
	if len(c.Also) > 0 {
		return n.releaseAll(c)
	}
	r := seam.Reply{Code: seam.Gone}
	holder, held, err := n.text(c.Key)
	switch {
	case err != nil:
		return refused(err)
	case held && holder == c.Token:
		if err := n.free(c); err != nil {
			return refused(err)
		}
		r.Code = seam.Deleted
	}
	if c.KeepFor == 0 && c.WakeKey != "" {
		r.Woken = n.tell(c)
	}
	return r
}

// free deletes a lock and its label, or shortens them.
func (n *Node) free(c *seam.Call) error {
	keys := []string{c.Key}
	if c.LabelKey != "" {
		keys = append(keys, c.LabelKey)
	}
	keep := c.KeepFor.Milliseconds()
	for _, key := range keys {
		var err error
		if keep == 0 {
			err = n.del(key)
		} else if n.pttl(key) > keep {
			err = n.expire(key, keep)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inspect is inspect.lua.
func (n *Node) inspect(c *seam.Call) seam.Reply {
	r := n.probe(c)
	if r.Type == "string" {
		r.Value, _, _ = n.text(c.Key)
		r.Label, _, _ = n.text(c.LabelKey) // one of another type is no label
	}
	if c.QueueKey != "" {
		r.Queue = n.queued(c)
	}
	return r
}

// breakUp is break.lua.
func (n *Node) breakUp(c *seam.Call) seam.Reply {
	if err := n.set(c.MarkKey, c.Token, c.TTL.Milliseconds()); err != nil {
		return refused(err)
	}
	holder, held, err := n.text(c.Key)
	switch {
	case err != nil:
		return refused(err)
	case !held:
		return seam.Reply{Code: seam.Gone}
	case holder != c.Token:
		return seam.Reply{Code: seam.Other, Value: holder}
	}
	if err := n.del(c.Key, c.LabelKey); err != nil {
		return refused(err)
	}
	return seam.Reply{Code: seam.Deleted}
}

// seal is seal.lua.
func (n *Node) seal(c *seam.Call) seam.Reply {
	stands, _, err := n.text(c.SealKey)
	if err != nil {
		return refused(err)
	}
	r := seam.Reply{Code: seam.Other}
	if c.Value != "" && (c.Force || stands == c.Expect) {
		if n.replica {
			return refused(errReadOnly)
		}
		stands, r.Code = c.Value, seam.OK
		n.data[c.SealKey] = entry{value: c.Value}
		if ms := c.TTL.Milliseconds(); ms > 0 {
			n.data[c.QuarantineKey] = entry{value: "1", at: n.millis() + ms}
		}
	}
	n.sealed(c, stands, &r)
	return r
}

// sealed fills in the seal and what is left of the quarantine. As in seal.lua, a
// quarantine is one that has time left: without TTL it is none.
func (n *Node) sealed(c *seam.Call, stands string, r *seam.Reply) {
	left := max(0, n.pttl(c.QuarantineKey))
	r.Seal, r.Quarantined, r.QuarantineTTL = stands, left > 0, time.Duration(left)*time.Millisecond
}
