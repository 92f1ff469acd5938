package main

import (
	"fmt"
	"io"
	"time"

	"github.com/redlock-go/redlock/internal/memnode"
	"github.com/redlock-go/redlock/internal/seam"
)

// This file plays the race on one Redis, step by step: two servers, A and B,
// and time that moves only when the story says so.

const (
	lockKey = "lock:order"
	leaseOf = 30 * time.Second
)

// timeline is a Redis with a clock of our own, and what was done on it.
type timeline struct {
	now   time.Time
	redis *memnode.Node
	conn  *memnode.Session
	out   io.Writer
}

func newTimeline(out io.Writer, title string) *timeline {
	t := &timeline{now: time.Unix(0, 0), out: out}
	t.redis = memnode.New("redis", func() time.Time { return t.now })
	t.conn = t.redis.NewSession()
	fmt.Fprintf(out, "%s\n\n%8s  %-34s  %s\n", title, "", "server A", "server B")
	return t
}

// tell writes a line into A's or B's column.
func (t *timeline) tell(who, what string) {
	a, b := what, ""
	if who == "B" {
		a, b = "", what
	}
	fmt.Fprintf(t.out, "%7.0fs  %-34s  %s\n", t.now.Sub(time.Unix(0, 0)).Seconds(), a, b)
}

// pass lets time go by: a slow job, a pause of the garbage collector, a network.
func (t *timeline) pass(d time.Duration, why string) {
	t.now = t.now.Add(d)
	fmt.Fprintf(t.out, "%8s  … %v: %s\n", "", d, why)
}

func (t *timeline) do(c seam.Call) seam.Reply {
	var reply [1]seam.Reply
	_ = t.redis.Exec(t.conn, []seam.Call{c}, reply[:]) // this Redis never fails
	return reply[0]
}

// acquire is SET NX PX.
func (t *timeline) acquire(who, token string) {
	ok := t.do(seam.Call{Op: seam.Acquire, Key: lockKey, Token: token, TTL: leaseOf}).Code == seam.OK
	t.tell(who, fmt.Sprintf("SET NX %s → %v", token, ok))
}

// get is the first half of the wrong release.
func (t *timeline) get(who string) (value string, found bool) {
	value, _, found = t.redis.Get(lockKey)
	t.tell(who, fmt.Sprintf("GET → %q", value))
	return value, found
}

// del is its second half: it deletes whatever stands there by now.
func (t *timeline) del(who string) {
	value, _, _ := t.redis.Get(lockKey)
	t.redis.Delete(lockKey)
	t.tell(who, fmt.Sprintf("DEL (it was %q)", value))
}

// compareAndDelete is the right release: one script, which nothing can come
// between, and which leaves another's token alone.
func (t *timeline) compareAndDelete(who, token string) {
	ok := t.do(seam.Call{Op: seam.Release, Key: lockKey, Token: token}).Code == seam.Deleted
	t.tell(who, fmt.Sprintf("compare %s and delete → %v", token, ok))
}

// left is whose lock stands at the end.
func (t *timeline) left() string {
	value, _, found := t.redis.Get(lockKey)
	if !found {
		value = "nobody"
	}
	fmt.Fprintf(t.out, "\n%8s  the lock is held by: %s\n\n", "", value)
	return value
}

// overran is the first timeline: A's work outlives its lease, B takes over, and
// A's release never compares. It returns whose lock is left.
func overran(out io.Writer, right bool) string {
	t := newTimeline(out, "A overran its lease")
	t.acquire("A", "token-A")
	t.pass(leaseOf+time.Second, "A works too long, its lease ends")
	t.acquire("B", "token-B")
	if right {
		t.compareAndDelete("A", "token-A")
	} else if _, found := t.get("A"); found {
		t.del("A")
	}
	return t.left()
}

// between is the second timeline: A's lease ends exactly between its GET, which
// still shows its own token, and its DEL. Comparing in the program is too early.
func between(out io.Writer, right bool) string {
	t := newTimeline(out, "A's lease ends between its GET and its DEL")
	t.acquire("A", "token-A")
	t.pass(leaseOf-time.Second, "A works, just within its lease")
	if right {
		t.pass(2*time.Second, "the network takes its time, the lease ends")
		t.acquire("B", "token-B")
		t.compareAndDelete("A", "token-A")
		return t.left()
	}
	value, found := t.get("A")
	t.pass(2*time.Second, "a pause, the lease ends")
	t.acquire("B", "token-B")
	if found && value == "token-A" { // it was, two seconds ago
		t.del("A")
	}
	return t.left()
}

// own is the third case: one's own token frees the lock.
func own(out io.Writer) string {
	t := newTimeline(out, "A releases in time")
	t.acquire("A", "token-A")
	t.pass(time.Second, "A works")
	t.compareAndDelete("A", "token-A")
	return t.left()
}
