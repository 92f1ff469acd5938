package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// This file reads the longer replies. What a server says is not trusted: a
// shape that is not expected is an error, never a vote.

// readSlice reads Inspect, Break and Seal.
func (s *slot) readSlice(v []any, r *seam.Reply) {
	bad := func() { s.strange(r) }
	num := func(i int) int64 {
		n, _ := v[i].(int64)
		return n
	}
	text := func(i int) string {
		t, _ := v[i].(string)
		return t
	}
	switch s.op {
	case seam.Inspect:
		if len(v) < 4 || len(v) > 5 || text(0) == "" {
			bad()
			return
		}
		r.Code, r.Type, r.TTL, r.Value, r.Label = seam.OK, text(0), pttlOf(num(1)), text(2), text(3)
		if len(v) == 5 {
			r.Queue = readQueue(v[4])
		}
	case seam.Break:
		if len(v) != 2 {
			bad()
			return
		}
		switch n, _ := v[0].(int64); n {
		case 1:
			r.Code = seam.Deleted
		case 2:
			r.Code, r.Value = seam.Other, text(1)
		default:
			r.Code = seam.Gone
		}
	case seam.Seal:
		if len(v) != 3 {
			bad()
			return
		}
		r.Code = seam.Other
		if num(0) == 1 {
			r.Code = seam.OK
		}
		readSealed(v, r)
	default:
		bad()
	}
}

// strange is the reply to an answer that no version of the script gives.
func (s *slot) strange(r *seam.Reply) {
	r.Code, r.Err = seam.Error, fmt.Errorf("%v was answered in a shape that is not known", s.op)
}

// readSealed reads what seal.lua says of the seal and the quarantine.
func readSealed(v []any, r *seam.Reply) {
	if len(v) != 3 {
		return
	}
	r.Seal, _ = v[1].(string)
	left, _ := v[2].(int64)
	r.QuarantineTTL = time.Duration(left) * time.Millisecond
	r.Quarantined = left > 0
}

// readCheck reads MGET and INFO replication.
func (s *slot) readCheck(v []string, r *seam.Reply) {
	info := s.all[1].(*redis.StringCmd)
	if failed(info.Err(), r) {
		return
	}
	if len(v) != 2 {
		r.Code, r.Err = seam.Error, fmt.Errorf("MGET of two keys answered %d", len(v))
		return
	}
	r.Code, r.Seal, r.Quarantined = seam.OK, v[0], v[1] != ""
	readReplication(info.Val(), r)
}

// readReplication takes role and replid from INFO replication.
func readReplication(info string, r *seam.Reply) {
	r.Master = field(info, "role") == "master"
	r.Replid = field(info, "master_replid")
}

// field is the value of a line "name:value" of INFO, without allocating.
func field(info, name string) string {
	for rest := info; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if len(line) > len(name) && line[len(name)] == ':' && line[:len(name)] == name {
			return strings.TrimSuffix(line[len(name)+1:], "\r")
		}
		rest = after
	}
	return ""
}

func number(info, name string) int64 {
	n, err := strconv.ParseInt(field(info, name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readHello reads the connection check.
func (s *slot) readHello(r *seam.Reply) {
	*r = seam.Reply{}
	f := &seam.Facts{MinReplicas: -1}
	id, client := s.all[0].(*redis.IntCmd), s.all[1].(*redis.StringCmd)
	if id.Err() == nil {
		f.ClientID = id.Val()
	}
	if f.KillRefused = errors.Join(id.Err(), client.Err()); client.Err() == nil {
		f.Addr = clientAddr(client.Val())
	}
	now := s.all[2].(*redis.StringSliceCmd)
	server, memory := s.all[3].(*redis.StringCmd), s.all[4].(*redis.StringCmd)
	persistence, replication := s.all[5].(*redis.StringCmd), s.all[6].(*redis.StringCmd)
	seal, bySHA := s.all[7].(*redis.SliceCmd), s.all[8].(*redis.SliceCmd)
	for _, cmd := range []redis.Cmder{now, server, memory, persistence, replication} {
		if failed(cmd.Err(), r) {
			return
		}
	}
	for _, cmd := range []redis.Cmder{seal, bySHA} {
		err := cmd.Err()
		if !failed(err, r) {
			continue
		}
		if r.Code == seam.Error && (redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command")) {
			r.Err = fmt.Errorf("%w (EVAL and EVALSHA are needed: without them no lock could be released)", err)
		}
		return
	}
	if len(seal.Val()) != 3 {
		s.strange(r)
		return
	}
	if t := now.Val(); len(t) == 2 {
		sec, _ := strconv.ParseInt(t[0], 10, 64)
		micro, _ := strconv.ParseInt(t[1], 10, 64)
		f.Time = sec*1_000_000 + micro
	}
	f.RunID, f.Version, f.Mode = field(server.Val(), "run_id"), field(server.Val(), "redis_version"), field(server.Val(), "redis_mode")
	f.UptimeSecond = number(server.Val(), "uptime_in_seconds")
	f.MaxMemory, f.Policy = number(memory.Val(), "maxmemory"), field(memory.Val(), "maxmemory_policy")
	f.AOF = field(persistence.Val(), "aof_enabled") == "1"
	f.Replicas = int(number(replication.Val(), "connected_slaves"))
	if field(replication.Val(), "min_slaves_good_slaves") != "" {
		f.MinReplicas = int(number(replication.Val(), "min_slaves_good_slaves"))
	}
	r.Code, r.Facts = seam.OK, f
	readSealed(seal.Val(), r)
	readReplication(replication.Val(), r)
}

// clientAddr is the addr of CLIENT INFO, "" where it is not shown.
func clientAddr(info string) string {
	for word := range strings.FieldsSeq(info) {
		if addr, ok := strings.CutPrefix(word, "addr="); ok {
			return addr
		}
	}
	return ""
}

// scan runs Holds or Seals: pages until there is an answer. Each page has the
// connection's timeout, since a server that answers is not hung, however many
// keys it has.
func (c *redisConn) scan(call *seam.Call, r *seam.Reply) error {
	match := globEscape(call.Tag) + "redlock:seal:*"
	if call.Op == seam.Holds {
		match = globEscape(call.Key) + "*"
	}
	ctx := context.Background()
	for cursor := uint64(0); ; {
		keys, next, err := c.conn.ScanType(ctx, cursor, match, 1000, "string").Result()
		if err != nil {
			*r = seam.Reply{}
			if failed(err, r); r.Code == seam.Error {
				return nil
			}
			return err
		}
		for _, key := range keys {
			key = strings.TrimPrefix(key, call.Tag)
			if call.Op == seam.Seals {
				if !slices.Contains(r.Values, key) { // a SCAN may show a key twice
					r.Values = append(r.Values, key)
				}
			} else if !strings.HasPrefix(key, "redlock:") {
				r.Code, r.Value = seam.OK, key
				return nil
			}
		}
		if cursor = next; cursor == 0 {
			r.Code = seam.OK
			return nil
		}
	}
}

// globEscape makes a prefix match itself.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
