package memnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

func TestAcquire(t *testing.T) {
	b := newBench(t)
	c := acquire("k", "a", time.Second)
	c.LabelKey, c.Label = "label", "me"
	require.Equal(t, seam.OK, b.do(c).Code)
	b.stands("k", "a", 1000)
	b.stands("label", "me", 1000)
	c.Token, c.Label = "b", "you"
	require.Equal(t, seam.Held, b.do(c).Code)
	b.stands("label", "me", 1000)
	b.PutList("list")
	require.Equal(t, seam.Held, b.do(acquire("list", "a", time.Second)).Code)
	require.ErrorContains(t, b.do(acquire("new", "a", 999*time.Microsecond)).Err, "ERR invalid expire time")
	b.absent("new")
}

func TestExtend(t *testing.T) {
	b := newBench(t)
	c := seam.Call{Op: seam.Extend, Key: "k", Token: "a", MarkKey: "mark", TTL: 5 * time.Second}
	require.Equal(t, seam.Readded, b.do(c).Code)
	b.stands("k", "a", 5000)
	b.advance(time.Second)
	require.Equal(t, seam.Mine, b.do(c).Code)
	b.stands("k", "a", 5000)

	// It never shortens, and the label lives as long as the lock.
	c.TTL, c.LabelKey, c.Label = time.Second, "label", "me"
	require.Equal(t, seam.Mine, b.do(c).Code)
	b.stands("k", "a", 5000)
	b.stands("label", "me", 5000)

	c.Token = "b"
	require.Equal(t, seam.Other, b.do(c).Code)
	b.stands("k", "a", 5000)

	b.Put("mark", "b", 0)
	b.Delete("k")
	require.Equal(t, seam.Broken, b.do(c).Code)
	b.absent("k")
	c.Token = "a"
	require.Equal(t, seam.Readded, b.do(c).Code)

	c.NotAfter = b.clock.now().UnixMicro()
	require.Equal(t, seam.Mine, b.do(c).Code)
	b.advance(time.Microsecond)
	c.TTL = time.Hour
	r := b.do(c)
	require.Equal(t, seam.Stale, r.Code)
	require.Equal(t, c.NotAfter+1, r.Time)
	_, ttl, _ := b.Get("k")
	require.LessOrEqual(t, ttl, time.Second)
}

func TestRelease(t *testing.T) {
	b := newBench(t)
	c := seam.Call{Op: seam.Release, Key: "k", Token: "a", LabelKey: "label"}
	require.Equal(t, seam.Gone, b.do(c).Code)
	b.Put("k", "b", 0)
	require.Equal(t, seam.Gone, b.do(c).Code)
	b.stands("k", "b", -1)

	b.Put("k", "a", time.Minute)
	b.Put("label", "me", time.Second)
	c.KeepFor = 2 * time.Second
	require.Equal(t, seam.Deleted, b.do(c).Code)
	b.stands("k", "a", 2000)
	b.stands("label", "me", 1000) // never lengthened
	c.KeepFor = 0
	require.Equal(t, seam.Deleted, b.do(c).Code)
	require.Empty(t, b.Keys())
}

func TestBreak(t *testing.T) {
	b := newBench(t)
	c := seam.Call{Op: seam.Break, Key: "k", Token: "a", MarkKey: "mark", LabelKey: "label", TTL: time.Second}
	require.Equal(t, seam.Gone, b.do(c).Code)
	b.stands("mark", "a", 1000)
	b.Put("k", "b", 0)
	r := b.do(c)
	require.Equal(t, seam.Other, r.Code)
	require.Equal(t, "b", r.Value)
	b.Put("k", "a", 0)
	b.Put("label", "me", 0)
	require.Equal(t, seam.Deleted, b.do(c).Code)
	require.Equal(t, []string{"mark"}, b.Keys())
}

func TestSealAndCheck(t *testing.T) {
	b := newBench(t)
	c := seam.Call{Op: seam.Seal, SealKey: "seal", QuarantineKey: "quarantine"}
	require.Equal(t, seam.Reply{Code: seam.Other}, b.do(c)) // only looks
	c.Value = "s1"
	require.Equal(t, seam.Reply{Code: seam.OK, Seal: "s1"}, b.do(c))
	c.Value, c.TTL = "s2", time.Second
	require.Equal(t, seam.Reply{Code: seam.Other, Seal: "s1"}, b.do(c))
	c.Expect = "s1"
	quarantined := seam.Reply{Code: seam.OK, Seal: "s2", Quarantined: true, QuarantineTTL: time.Second}
	require.Equal(t, quarantined, b.do(c))
	b.advance(time.Minute)
	c.Expect, c.Force = "no", true
	require.Equal(t, quarantined, b.do(c))
	check := seam.Call{Op: seam.Check, SealKey: "seal", QuarantineKey: "quarantine"}
	require.Equal(t, seam.Reply{Code: seam.OK, Seal: "s2", Quarantined: true, Master: true, Replid: b.Replid()}, b.do(check))
	b.PutList("seal")
	b.PutList("quarantine")
	require.Equal(t, seam.Reply{Code: seam.OK, Master: true, Replid: b.Replid()}, b.do(check))
}

func TestInspectAndProbe(t *testing.T) {
	b := newBench(t)
	c := seam.Call{Op: seam.Inspect, Key: "k", LabelKey: "label"}
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "none", TTL: -2}, b.do(c))
	b.Put("label", "me", 0)
	b.Put("k", "a", time.Second)
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "string", TTL: time.Second, Value: "a", Label: "me"}, b.do(c))
	c.Op = seam.Probe
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "string", TTL: time.Second}, b.do(c))
	b.PutList("k")
	c.Op = seam.Inspect
	require.Equal(t, seam.Reply{Code: seam.OK, Type: "list", TTL: -1}, b.do(c))
}

func TestScans(t *testing.T) {
	b := newBench(t)
	b.Put("redlock:seal:b", "1", 0)
	b.Put("redlock:seal:a", "1", 0)
	b.Put("lock:x", "1", time.Second)
	b.PutList("lock:a")
	require.Equal(t, "lock:x", b.do(seam.Call{Op: seam.Holds, Key: "lock:"}).Value)
	require.Equal(t, "lock:x", b.do(seam.Call{Op: seam.Holds}).Value)
	require.Equal(t, []string{"redlock:seal:a", "redlock:seal:b"}, b.do(seam.Call{Op: seam.Seals}).Values)
	b.advance(2 * time.Second)
	require.Equal(t, seam.Reply{Code: seam.OK}, b.do(seam.Call{Op: seam.Holds}))
}

func TestAnotherTypeIsRefused(t *testing.T) {
	b := newBench(t)
	b.PutList("list")
	for _, c := range []seam.Call{
		{Op: seam.Extend, Key: "list", TTL: time.Second},
		{Op: seam.Extend, Key: "none", MarkKey: "list", TTL: time.Second},
		{Op: seam.Release, Key: "list"},
		{Op: seam.Break, Key: "list", MarkKey: "mark", TTL: time.Second},
		{Op: seam.Seal, SealKey: "list", Value: "s"},
		{Op: seam.Hello, SealKey: "list"},
	} {
		r := b.do(c)
		require.Equal(t, seam.Error, r.Code, "%v", c.Op)
		require.ErrorContains(t, r.Err, "WRONGTYPE", "%v", c.Op)
	}
	require.Equal(t, []string{"list", "mark"}, b.Keys()) // break.lua marks first
}

func TestReplicaRefusesWrites(t *testing.T) {
	b := newBench(t)
	b.Put("k", "a", time.Minute)
	before := b.Replid()
	b.Demote()
	require.Equal(t, before, b.Replid())
	for _, c := range []seam.Call{
		acquire("k", "a", time.Second),
		{Op: seam.Extend, Key: "k", Token: "a", TTL: time.Hour},
		{Op: seam.Extend, Key: "k", Token: "a", TTL: time.Second, LabelKey: "label"},
		{Op: seam.Extend, Key: "none", Token: "a", TTL: time.Second},
		{Op: seam.Release, Key: "k", Token: "a"},
		{Op: seam.Release, Key: "k", Token: "a", KeepFor: time.Second},
		{Op: seam.Break, Key: "k", Token: "b", MarkKey: "mark", TTL: time.Second},
		{Op: seam.Seal, SealKey: "seal", Value: "s"},
	} {
		require.ErrorContains(t, b.do(c).Err, "READONLY", "%+v", c)
	}
	// What does not write is answered.
	require.Equal(t, seam.Mine, b.do(seam.Call{Op: seam.Extend, Key: "k", Token: "a", TTL: time.Second}).Code)
	require.Equal(t, seam.Other, b.do(seam.Call{Op: seam.Seal, SealKey: "seal"}).Code)
	require.False(t, b.hello().Master)
	b.Promote()
	require.True(t, b.hello().Master)
	require.NotEqual(t, before, b.Replid())
	require.Equal(t, []string{"k"}, b.Keys())
}
