package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// slot holds the commands of one call, made once per connection. Their
// arguments point at its fields, which load fills in.
type slot struct {
	op   seam.Op
	cmds []redis.Cmder // what load chose for the call

	sc script // of several names, or of a queue

	key, token, label, labelKey, markKey string
	sealKey, quarKey, expect, value      string
	force, addr                          string
	ttl, keep, notAfter, clientID        int64
	wakeKey, channel, fenceKey           string
	queueKey, endsKey                    string
	fence, block, fenceTTL, limit        int64

	plain    redis.Cmder    // without a label
	labelled redis.Cmder    // with one; nil where it makes no difference
	waking   [2]redis.Cmder // a Release that wakes, without a label and with one
	heeding  [2]redis.Cmder // …and looks whether anybody queues
	fenced   [2]redis.Cmder // an Acquire with a fence, without a label and with one
	one, all []redis.Cmder
}

func (s *slot) cmd() redis.Cmder { return s.cmds[0] }

// newSlot makes the commands of an op.
func newSlot(op seam.Op) *slot {
	s := &slot{op: op}
	ctx := context.Background()
	switch op {
	case seam.Acquire:
		s.plain = redis.NewStatusCmd(ctx, "set", &s.key, &s.token, "nx", "px", &s.ttl)
		s.labelled = redis.NewIntCmd(ctx, "evalsha", acquireScript.sha, 2, &s.key, &s.labelKey, &s.token, &s.ttl, &s.label)
		sha := fencedScript.sha
		s.fenced[0] = redis.NewIntSliceCmd(ctx, "evalsha", sha, 2, &s.key, &s.fenceKey, &s.token, &s.ttl, &s.fence, &s.block, &s.fenceTTL)
		s.fenced[1] = redis.NewIntSliceCmd(ctx, "evalsha", sha, 3, &s.key, &s.fenceKey, &s.labelKey,
			&s.token, &s.ttl, &s.fence, &s.block, &s.fenceTTL, &s.label)
	case seam.Raise:
		s.plain = redis.NewIntCmd(ctx, "evalsha", raiseScript.sha, 2, &s.key, &s.fenceKey, &s.token, &s.fence, &s.limit, &s.fenceTTL)
	case seam.Extend:
		s.plain = redis.NewIntSliceCmd(ctx, "evalsha", extendScript.sha, 2, &s.key, &s.markKey, &s.token, &s.ttl, &s.notAfter)
		s.labelled = redis.NewIntSliceCmd(ctx, "evalsha", extendScript.sha, 3, &s.key, &s.markKey, &s.labelKey,
			&s.token, &s.ttl, &s.notAfter, &s.label)
	case seam.Release:
		s.release(ctx)
	case seam.Probe:
		s.plain = redis.NewStatusCmd(ctx, "type", &s.key)
		s.all = []redis.Cmder{s.plain, redis.NewIntCmd(ctx, "pttl", &s.key)}
	case seam.Inspect:
		s.plain = redis.NewSliceCmd(ctx, "evalsha", inspectScript.sha, 2, &s.key, &s.labelKey)
	case seam.Break:
		s.plain = redis.NewSliceCmd(ctx, "evalsha", breakScript.sha, 3, &s.key, &s.markKey, &s.labelKey, &s.token, &s.ttl)
	case seam.Check:
		s.plain = redis.NewStringSliceCmd(ctx, "mget", &s.sealKey, &s.quarKey)
		s.all = []redis.Cmder{s.plain, redis.NewStringCmd(ctx, "info", "replication")}
	case seam.Seal:
		s.plain = redis.NewSliceCmd(ctx, "evalsha", sealScript.sha, 2, &s.sealKey, &s.quarKey, &s.expect, &s.value, &s.ttl, &s.force)
	case seam.Kill:
		s.plain = redis.NewIntCmd(ctx, "client", "kill", "id", &s.clientID)
		s.labelled = redis.NewIntCmd(ctx, "client", "kill", "id", &s.clientID, "addr", &s.addr)
	case seam.Hello:
		s.all = s.hello(ctx)
	case seam.Register:
		s.plain = redis.NewIntCmd(ctx, "evalsha", enlistScript.sha, 1, &s.wakeKey, &s.channel, &s.ttl)
	case seam.Unregister:
		s.plain = redis.NewIntCmd(ctx, "zrem", &s.wakeKey, &s.channel)
	case seam.PassOn:
		s.plain = redis.NewIntCmd(ctx, "evalsha", passOnScript.sha, 1, &s.wakeKey, &s.channel, &s.key)
	}
	s.one = make([]redis.Cmder, 1)
	return s
}

// release makes the six forms of release.lua: its third argument says how many
// keys go, and those after them are where the waiters and the queue are.
func (s *slot) release(ctx context.Context) {
	sha := releaseScript.sha
	s.plain = redis.NewIntCmd(ctx, "evalsha", sha, 1, &s.key, &s.token, &s.keep, "1")
	s.labelled = redis.NewIntCmd(ctx, "evalsha", sha, 2, &s.key, &s.labelKey, &s.token, &s.keep, "2")
	s.waking[0] = redis.NewIntCmd(ctx, "evalsha", sha, 2, &s.key, &s.wakeKey, &s.token, &s.keep, "1")
	s.waking[1] = redis.NewIntCmd(ctx, "evalsha", sha, 3, &s.key, &s.labelKey, &s.wakeKey, &s.token, &s.keep, "2")
	s.heeding[0] = redis.NewIntCmd(ctx, "evalsha", sha, 4, &s.key, &s.wakeKey, &s.queueKey, &s.endsKey, &s.token, &s.keep, "1")
	s.heeding[1] = redis.NewIntCmd(ctx, "evalsha", sha, 5, &s.key, &s.labelKey, &s.wakeKey, &s.queueKey, &s.endsKey, &s.token, &s.keep, "2")
}

// hello are the commands of the connection check.
func (s *slot) hello(ctx context.Context) []redis.Cmder {
	cmds := []redis.Cmder{
		redis.NewIntCmd(ctx, "client", "id"),
		redis.NewStringCmd(ctx, "client", "info"),
		redis.NewStringSliceCmd(ctx, "time"),
		redis.NewStringCmd(ctx, "info", "server"),
		redis.NewStringCmd(ctx, "info", "memory"),
		redis.NewStringCmd(ctx, "info", "persistence"),
		redis.NewStringCmd(ctx, "info", "replication"),
		// EVAL leaves the script behind, so the second cannot meet NOSCRIPT; the
		// right to one is not the right to the other.
		redis.NewSliceCmd(ctx, "eval", sealScript.source, 2, &s.sealKey, &s.quarKey, "", "", "0", "0"),
		redis.NewSliceCmd(ctx, "evalsha", sealScript.sha, 2, &s.sealKey, &s.quarKey, "", "", "0", "0"),
	}
	for _, sc := range allScripts() {
		cmds = append(cmds, redis.NewStringCmd(ctx, "script", "load", sc.source))
	}
	return cmds
}

// load fills in a call and chooses its commands.
func (s *slot) load(c *seam.Call) {
	s.key, s.token, s.label, s.labelKey, s.markKey = c.Key, c.Token, c.Label, c.LabelKey, c.MarkKey
	s.sealKey, s.quarKey, s.expect, s.value = c.SealKey, c.QuarantineKey, c.Expect, c.Value
	s.ttl, s.keep, s.notAfter = c.TTL.Milliseconds(), c.KeepFor.Milliseconds(), c.NotAfter
	s.clientID, s.addr = c.ClientID, c.Addr
	s.wakeKey, s.channel = c.WakeKey, c.Channel
	s.fenceKey, s.fence, s.block = c.FenceKey, c.Fence, c.Block
	s.fenceTTL, s.limit = c.FenceTTL.Milliseconds(), c.Limit
	s.queueKey, s.endsKey = c.QueueKey, c.EndsKey
	s.force = "0"
	if c.Force {
		s.force = "1"
	}
	switch s.sc = (script{}); {
	case len(c.Also) > 0:
		s.many(c)
		return
	case c.QueueKey != "" && c.Op != seam.Release:
		s.queue(c)
		return
	}
	forms := [2]redis.Cmder{}
	switch {
	case c.Op == seam.Release && c.WakeKey != "" && c.QueueKey != "":
		forms = s.heeding
	case c.Op == seam.Release && c.WakeKey != "":
		forms = s.waking
	case c.Op == seam.Acquire && c.FenceKey != "":
		forms = s.fenced
	}
	switch {
	case s.all != nil:
		s.cmds = s.all
	case s.plain == nil:
		s.cmds = nil // Holds and Seals are not pipelined: see scan
	case forms[0] != nil:
		s.one[0] = forms[0]
		if c.LabelKey != "" {
			s.one[0] = forms[1]
		}
		s.cmds = s.one
	case s.labelled != nil && (c.LabelKey != "" || c.Op == seam.Kill && c.Addr != ""):
		s.one[0] = s.labelled
		s.cmds = s.one
	default:
		s.one[0] = s.plain
		s.cmds = s.one
	}
}

func (s *slot) script() script {
	if s.sc.sha != "" {
		return s.sc
	}
	switch s.op {
	case seam.Acquire:
		if s.fenceKey != "" {
			return fencedScript
		}
		return acquireScript
	case seam.Raise:
		return raiseScript
	case seam.Extend:
		return extendScript
	case seam.Inspect:
		return inspectScript
	case seam.Break:
		return breakScript
	case seam.Seal:
		return sealScript
	case seam.Register:
		return enlistScript
	case seam.PassOn:
		return passOnScript
	}
	return releaseScript
}

// failed fills the reply of a command that has no result: it was not read, or
// the server refused.
func failed(err error, r *seam.Reply) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	if isRefusal(err) {
		r.Code, r.Err = seam.Error, err
	}
	return true
}

// read turns what came back into the reply of the call.
func (s *slot) read(r *seam.Reply) {
	if len(s.cmds) == 0 {
		return
	}
	err := s.cmd().Err()
	if failed(err, r) {
		if s.op == seam.Hello && r.Code == seam.Error {
			s.readHello(r) // CLIENT ID may be refused where all else works
		}
		return
	}
	if _, isSet := s.cmd().(*redis.StatusCmd); err != nil && (!isSet || s.op != seam.Acquire) {
		s.strange(r) // nil, which is an answer to SET NX alone
		return
	}
	switch cmd := s.cmd().(type) {
	case *redis.StatusCmd:
		s.readStatus(cmd, err, r)
	case *redis.IntCmd:
		s.readInt(cmd.Val(), r)
	case *redis.IntSliceCmd:
		s.readInts(cmd.Val(), r)
	case *redis.SliceCmd:
		s.readSlice(cmd.Val(), r)
	case *redis.StringSliceCmd:
		s.readCheck(cmd.Val(), r)
	}
}

// readStatus reads SET and TYPE. OK is inferred from nothing but +OK.
func (s *slot) readStatus(cmd *redis.StatusCmd, err error, r *seam.Reply) {
	if s.op == seam.Probe {
		pttl := s.all[1].(*redis.IntCmd)
		if failed(pttl.Err(), r) {
			return
		}
		r.Code, r.Type, r.TTL = seam.OK, cmd.Val(), pttlOf(pttl.Val())
		return
	}
	switch {
	case errors.Is(err, redis.Nil):
		r.Code = seam.Held
	case cmd.Val() == "OK":
		r.Code = seam.OK
	default:
		r.Code, r.Err = seam.Error, fmt.Errorf("SET answered %.40q instead of OK", cmd.Val())
	}
}

// pttlOf keeps PTTL's -1 and -2 as they are.
func pttlOf(ms int64) time.Duration {
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *slot) readInt(v int64, r *seam.Reply) {
	switch s.op {
	case seam.Acquire, seam.Release, seam.Register, seam.Unregister, seam.PassOn, seam.Raise, seam.Leave:
		s.readCode(v, r)
	case seam.Kill:
		r.Code = seam.OK
	case seam.Hello:
		s.readHello(r)
	}
}

// readCode reads what the scripts answer with a small number, and ZREM.
func (s *slot) readCode(v int64, r *seam.Reply) {
	switch {
	case s.op == seam.Acquire && (v == 0 || v == 1):
		r.Code = [...]seam.Code{seam.Held, seam.OK}[v]
	case s.op == seam.Release && v >= 0 && v <= 3:
		r.Code = [...]seam.Code{seam.Gone, seam.Deleted}[v&1]
		r.Woken = v&2 != 0
	case s.op == seam.Register && (v == 0 || v == 1):
		r.Code = [...]seam.Code{seam.Other, seam.OK}[v]
	case s.op == seam.Raise && v >= 0 && v <= 2:
		r.Code = [...]seam.Code{seam.Other, seam.Mine, seam.Ahead}[v]
	case s.op == seam.Unregister:
		r.Code = seam.OK
	case s.op == seam.Leave && (v == 0 || v == 2):
		r.Code, r.Woken = seam.OK, v == 2
	case s.op == seam.PassOn && (v == 0 || v == 1):
		r.Code, r.Woken = seam.OK, v == 1
	default:
		s.strange(r)
	}
}

// readInts reads Extend, and Acquire with a fence.
func (s *slot) readInts(v []int64, r *seam.Reply) {
	s.strange(r)
	switch {
	case s.op == seam.Acquire && s.sc.sha == fairScript.sha:
		readFair(v, r)
	case s.op == seam.Acquire:
		if len(v) == 2 && v[0] == 0 {
			*r = seam.Reply{Code: seam.Held, Time: v[1]}
		} else if len(v) == 3 && v[0] == 1 && v[2] >= 0 && v[2] < 1<<53 {
			*r = seam.Reply{Code: seam.OK, Time: v[1], Fence: v[2]}
		}
	case len(v) == 2 && v[0] == 3:
		*r = seam.Reply{Code: seam.Stale, Time: v[1]}
	case len(v) == 1 && v[0] >= 0 && v[0] <= 4 && v[0] != 3:
		*r = seam.Reply{Code: [...]seam.Code{seam.Other, seam.Mine, seam.Readded, seam.Stale, seam.Broken}[v[0]]}
	}
}
