package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/redisproc"
	"github.com/redlock-go/redlock/internal/seam"
)

// twins are a real server and an in-memory node that get the same calls.
type twins struct {
	t      *testing.T
	rnd    *rand.Rand
	server *redisproc.Server
	admin  *redis.Client
	mem    *memnode.Node
	dialer *redisDialer
	conns  [2]seam.Conn
	facts  [2]*seam.Facts
	log    []string
	slow   time.Duration // the longest that a batch on both took
	ears   [2][]*twinEar
}

// slack is how far two clocks' answers about the same key may be apart: the
// calls go to one after the other.
const slack = 40 * time.Millisecond

func newTwins(t *testing.T, seed uint64) *twins {
	server := startServers(t, 1, redisproc.Options{AppendOnly: true})[0]
	w := &twins{
		t: t, rnd: rand.New(rand.NewPCG(seed, 0)), server: server,
		admin: redis.NewClient(&redis.Options{Addr: server.Addr()}), mem: memnode.New("twin", nil),
		dialer: newRedisDialer(&redis.Options{Addr: server.Addr()}),
	}
	w.connect()
	t.Cleanup(func() {
		w.deafen()
		w.hangUp()
		require.NoError(t, w.admin.Close())
	})
	return w
}

func (w *twins) hangUp() {
	for _, c := range w.conns {
		if c != nil {
			c.Close()
		}
	}
}

// connect makes new connections to both and compares what they say of themselves.
func (w *twins) connect() {
	w.hangUp()
	for i, d := range []seam.Dialer{w.dialer, w.mem.Dialer()} {
		c, err := d.Dial(5 * time.Second)
		require.NoError(w.t, err)
		w.conns[i] = c
	}
	w.compare([]seam.Call{{Op: seam.Hello, SealKey: "redlock:seal:", QuarantineKey: "redlock:quarantine:"}})
}

// compare runs a batch on both and demands the same replies.
func (w *twins) compare(calls []seam.Call) {
	var replies [2][]seam.Reply
	began := time.Now()
	for i, c := range w.conns {
		replies[i] = make([]seam.Reply, len(calls))
		require.NoError(w.t, c.Do(calls, replies[i]), "%v", w.log)
	}
	w.slow = max(w.slow, time.Since(began)) // the two were asked up to so long one after the other
	for k := range calls {
		redis7, mem := &replies[0][k], &replies[1][k]
		w.log = append(w.log, fmt.Sprintf("%v %+v", calls[k].Op, calls[k]))
		if len(w.log) > 30 {
			w.log = w.log[1:]
		}
		if d := difference(redis7, mem, slack+2*w.slow); d != "" {
			w.t.Fatalf("%s\nreal: %+v\nmem:  %+v\nafter:\n%s", d, *redis7, *mem, strings.Join(w.log, "\n"))
		}
		if calls[k].Op == seam.Hello && redis7.Facts != nil {
			w.facts = [2]*seam.Facts{redis7.Facts, mem.Facts}
		}
	}
}

// difference says where two replies differ, "" for nowhere.
func difference(a, b *seam.Reply, slack time.Duration) string {
	word := func(err error) string {
		if err == nil {
			return ""
		}
		return strings.Fields(err.Error())[0]
	}
	switch {
	case a.Code != b.Code:
		return "code"
	case word(a.Err) != word(b.Err):
		return "error"
	case a.TTL < 0 != (b.TTL < 0) || a.TTL < 0 && a.TTL != b.TTL || (a.TTL-b.TTL).Abs() > slack:
		return "ttl"
	case a.Type != b.Type:
		return "type"
	case a.Value != b.Value && !sameCounter(a.Value, b.Value, slack):
		return "value"
	case a.Label != b.Label:
		return "label"
	case strings.Join(a.Values, " ") != strings.Join(b.Values, " "):
		return "values"
	case a.Woken != b.Woken:
		return "woken"
	case (a.Time > 0) != (b.Time > 0) || (time.Duration(a.Time-b.Time)*time.Microsecond).Abs() > slack:
		return "time"
	case a.Fence != b.Fence && (a.Fence == 0 || b.Fence == 0 || (time.Duration(a.Fence-b.Fence)*time.Microsecond).Abs() > slack):
		return "fence"
	case (a.Ticket > 0) != (b.Ticket > 0) || micros(a.Ticket-b.Ticket).Abs() > slack:
		return "ticket"
	case a.Length != b.Length || !slices.Equal(a.Queue, b.Queue):
		return "queue"
	case a.Seal != b.Seal:
		return "seal"
	case a.Quarantined != b.Quarantined:
		return "quarantined"
	case (a.QuarantineTTL - b.QuarantineTTL).Abs() > slack:
		return "quarantine ttl"
	case a.Master != b.Master:
		return "role"
	case len(a.Replid) != len(b.Replid):
		return "replid"
	case (a.Facts == nil) != (b.Facts == nil):
		return "facts"
	case a.Facts != nil && a.Facts.ClientID > 0 != (b.Facts.ClientID > 0):
		return "client id"
	}
	return ""
}

// ttl is one that is long against the slack, or one that ends soon; the latter
// are waited for before anything else is asked.
func (w *twins) ttl() time.Duration {
	return time.Duration(10+w.rnd.IntN(50)) * time.Second
}

// one makes a random call over few keys and tokens, so that they meet.
func (w *twins) one() seam.Call {
	pick := func(prefix string, n int) string { return prefix + strconv.Itoa(w.rnd.IntN(n)) }
	key := pick("lock:", 4)
	c := seam.Call{
		Key: key, Token: pick("token", 3), TTL: w.ttl(), MarkKey: "redlock:b:" + key,
		SealKey: "redlock:seal:", QuarantineKey: "redlock:quarantine:",
	}
	if w.rnd.IntN(3) == 0 {
		c.LabelKey, c.Label = "redlock:l:"+key, pick("label", 2)
	}
	switch w.rnd.IntN(17) {
	case 0, 1, 2:
		c.Op = seam.Acquire
		w.fence(&c, key)
		w.also(&c)
		w.queue(&c, key)
	case 16:
		c.Op = seam.Leave
		w.queue(&c, key)
	case 15:
		c.Op, c.LabelKey = seam.Raise, ""
		w.fence(&c, key)
		w.also(&c)
	case 3, 4:
		c.Op = seam.Extend
		if w.rnd.IntN(4) == 0 {
			c.NotAfter = 1
		}
		w.also(&c)
	case 5, 6:
		c.Op = seam.Release
		if w.rnd.IntN(3) == 0 {
			c.KeepFor = w.ttl() / 2
		}
		if w.rnd.IntN(2) == 0 {
			c.WakeKey = wakePrefix + key
		}
		w.also(&c)
		w.queue(&c, key)
	case 7:
		c.Op = seam.Probe
	case 8:
		c.Op, c.LabelKey = seam.Inspect, "redlock:l:"+key
		w.queue(&c, key)
	case 9:
		c.Op, c.LabelKey = seam.Break, "redlock:l:"+key
	case 10:
		c.Op, c.Value, c.Expect = seam.Seal, pick("seal", 3), pick("seal", 3)
		if w.rnd.IntN(3) == 0 {
			c.Expect = ""
		}
		if w.rnd.IntN(3) == 0 {
			c.Value = ""
		}
		if w.rnd.IntN(2) == 0 {
			c.TTL = 0
		}
		c.Force = w.rnd.IntN(5) == 0
	case 11:
		c.Op = seam.Check
	case 12, 13, 14:
		c.Op = [...]seam.Op{seam.Register, seam.Unregister, seam.PassOn}[w.rnd.IntN(3)]
		c.WakeKey, c.Channel = wakePrefix+key, pick("channel", 4)
	}
	return c
}

// upset does something to both from outside.
func (w *twins) upset(ctx context.Context) {
	key := "lock:" + strconv.Itoa(w.rnd.IntN(4))
	switch w.rnd.IntN(9) {
	case 8:
		w.strayQueue(key)
	case 0:
		require.NoError(w.t, w.admin.FlushAll(ctx).Err())
		w.mem.Flush()
	case 1:
		require.NoError(w.t, w.admin.Del(ctx, key).Err())
		w.mem.Delete(key)
	case 2:
		require.NoError(w.t, w.admin.Del(ctx, key).Err())
		require.NoError(w.t, w.admin.RPush(ctx, key, "x").Err())
		w.mem.PutList(key)
	case 3:
		require.NoError(w.t, w.admin.Set(ctx, key, "for ever", 0).Err())
		w.mem.Put(key, "for ever", 0)
	case 4:
		w.restart(ctx, w.rnd.IntN(2) == 0)
	case 5:
		w.forgetScripts(ctx)
	case 6:
		w.expire(ctx, key)
	case 7:
		w.replica(ctx)
	}
}

// forgetScripts is SCRIPT FLUSH: NOSCRIPT must not surface. The scripts of a
// batch then run behind its plain commands, so each op is asked alone first,
// which brings its script back.
func (w *twins) forgetScripts(ctx context.Context) {
	require.NoError(w.t, w.admin.ScriptFlush(ctx).Err())
	for seen := map[seam.Op]bool{}; len(seen) < 8; {
		c := w.one()
		switch c.Op {
		case seam.Extend, seam.Release, seam.Inspect, seam.Break, seam.Seal, seam.Register, seam.PassOn:
		case seam.Acquire:
			if c.LabelKey == "" {
				continue
			}
			c.LabelKey, c.Label = "redlock:l:"+c.Key, "label"
		default:
			continue
		}
		w.compare([]seam.Call{c})
		seen[c.Op] = true
	}
	w.compare([]seam.Call{{Op: seam.Acquire, Key: "lock:0", Token: "token0", TTL: w.ttl(), LabelKey: "redlock:l:lock:0", Label: "label"}})
	for _, sc := range allScripts() { // those of calls that were not among them
		require.NoError(w.t, w.admin.ScriptLoad(ctx, sc.source).Err())
	}
}

// restart ends both processes and starts them with or without their memory.
func (w *twins) restart(ctx context.Context, empty bool) {
	before := w.facts
	w.deafen()
	require.NoError(w.t, w.server.Restart(ctx, empty))
	defer w.listen()
	if empty {
		w.mem.Forget()
	} else {
		w.mem.Kill()
		w.mem.Start()
	}
	w.connect()
	for i := range before {
		require.NotEqual(w.t, before[i].RunID, w.facts[i].RunID)
	}
}

// expire lets a key run out and waits until it has, on both.
func (w *twins) expire(ctx context.Context, key string) {
	const soon = 5 * time.Millisecond
	w.compare([]seam.Call{{Op: seam.Acquire, Key: key, Token: "short", TTL: soon}})
	require.Eventually(w.t, func() bool {
		v, err := w.admin.Get(ctx, key).Result()
		mem, _, _ := w.mem.Get(key)
		return (err != nil || v != "short") && mem != "short"
	}, 5*time.Second, time.Millisecond)
}

// replica makes both a replica for some calls: writes are refused, reads not.
func (w *twins) replica(ctx context.Context) {
	require.NoError(w.t, w.admin.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	w.mem.Demote()
	for range 5 {
		w.compare([]seam.Call{w.one()})
		w.connect() // a lane drops a connection that led to a replica
	}
	require.NoError(w.t, w.admin.ReplicaOf(ctx, "NO", "ONE").Err())
	w.mem.Promote()
}

// state compares all that stands on both.
func (w *twins) state(ctx context.Context) {
	keys, err := w.admin.Keys(ctx, "*").Result()
	require.NoError(w.t, err)
	require.ElementsMatch(w.t, keys, w.mem.Keys(), "%s", strings.Join(w.log, "\n"))
	for _, key := range keys {
		w.compare([]seam.Call{{Op: seam.Inspect, Key: key, LabelKey: "none"}})
		if name, ok := strings.CutPrefix(key, queuePrefix); ok {
			w.compare([]seam.Call{{Op: seam.Inspect, Key: name, LabelKey: "none", Queue: seam.Queue{QueueKey: key, EndsKey: endsPrefix + name}}})
		}
	}
	w.compare([]seam.Call{{Op: seam.Seals}})
}

// The in-memory node and a real server give the same replies to the same random
// calls and end in the same state: that is what makes a simulation over the
// one say something about the other.
func TestDifferentialMemnodeAgainstRedis(t *testing.T) {
	const seeds, calls = 4, 3000
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTwins(t, seed)
			w.listen()
			for done := 0; done < calls; {
				if w.rnd.IntN(40) == 0 {
					w.upset(t.Context())
				}
				batch := make([]seam.Call, 1+w.rnd.IntN(5))
				for i := range batch {
					batch[i] = w.one()
				}
				w.compare(batch)
				done += len(batch)
				w.heard()
				if w.rnd.IntN(50) == 0 {
					w.state(t.Context())
				}
			}
			w.state(t.Context())
		})
	}
}

// A differential test that sees nothing proves nothing.
func TestDifferentialHasTeeth(t *testing.T) {
	same := seam.Reply{Code: seam.Mine, TTL: time.Second, Type: "string", Value: "v", Replid: "r"}
	for name, other := range map[string]seam.Reply{
		"code":           {Code: seam.Readded, TTL: time.Second, Type: "string", Value: "v", Replid: "r"},
		"ttl":            {Code: seam.Mine, TTL: 2 * time.Second, Type: "string", Value: "v", Replid: "r"},
		"type":           {Code: seam.Mine, TTL: time.Second, Type: "list", Value: "v", Replid: "r"},
		"value":          {Code: seam.Mine, TTL: time.Second, Type: "string", Value: "w", Replid: "r"},
		"quarantined":    {Code: seam.Mine, TTL: time.Second, Type: "string", Value: "v", Replid: "r", Quarantined: true},
		"quarantine ttl": {Code: seam.Mine, TTL: time.Second, Type: "string", Value: "v", Replid: "r", QuarantineTTL: time.Second},
		"seal":           {Code: seam.Mine, TTL: time.Second, Type: "string", Value: "v", Replid: "r", Seal: "s"},
		"role":           {Code: seam.Mine, TTL: time.Second, Type: "string", Value: "v", Replid: "r", Master: true},
	} {
		require.Equal(t, name, difference(&same, &other, slack))
	}
	require.Empty(t, difference(&same, &same, slack))
}
