package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/seam"
)

// sentinelRedis reaches real sentinels and masters.
type sentinelRedis struct{ master, sentinel redis.Options }

func (w *sentinelRedis) dialer(base redis.Options, addr string) *redisDialer {
	base.Addr = addr
	return newRedisDialer(&base)
}

func (w *sentinelRedis) dial(addr string, timeout time.Duration) (seam.Conn, error) {
	return w.dialer(w.master, addr).Dial(timeout)
}

func (w *sentinelRedis) listenMaster(addr, channel string, timeout time.Duration) (seam.Ear, error) {
	return w.dialer(w.master, addr).Listen(channel, timeout)
}

func (w *sentinelRedis) listen(addr string, timeout time.Duration) (seam.Ear, error) {
	return w.dialer(w.sentinel, addr).Listen("+switch-master", timeout)
}

// ask connects for every question: once a second is rare, and a connection that
// is kept would have to be minded.
func (w *sentinelRedis) ask(addr, name string, timeout time.Duration) (said sentinelSaid, err error) {
	deadline := time.Now().Add(timeout)
	conn, err := w.dialer(w.sentinel, addr).Dial(timeout)
	if err != nil {
		return said, sentinelRefusal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return askSentinel(ctx, conn.(*redisConn).conn, name)
}

// askSentinel asks for the master's address as clients do, since during a failover
// it is right before SENTINEL MASTER is, and for the rest of what counts.
func askSentinel(ctx context.Context, conn *redis.Conn, name string) (said sentinelSaid, err error) {
	id := redis.NewStringCmd(ctx, "sentinel", "myid")
	addr := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", name)
	master := redis.NewMapStringStringCmd(ctx, "sentinel", "master", name)
	others := redis.NewSliceCmd(ctx, "sentinel", "sentinels", name)
	pipe := conn.Pipeline()
	for _, cmd := range []redis.Cmder{id, addr, master, others} {
		cmd.SetErr(errUnread)
		_ = pipe.Process(ctx, cmd)
	}
	_, all := pipe.Exec(ctx)
	if err := id.Err(); err != nil {
		if errors.Is(err, errUnread) {
			err = all
		}
		return said, sentinelRefusal(err)
	}
	said.id = id.Val()
	switch err := addr.Err(); {
	case errors.Is(err, redis.Nil):
		return said, nil // it does not know the name
	case err != nil:
		return said, sentinelRefusal(err)
	case len(addr.Val()) != 2:
		return said, errors.New("SENTINEL GET-MASTER-ADDR-BY-NAME was answered in a shape that is not known")
	}
	if err := errors.Join(master.Err(), others.Err()); err != nil {
		return said, sentinelRefusal(err)
	}
	said.known = true
	said.master = net.JoinHostPort(addr.Val()[0], addr.Val()[1])
	if said.epoch, err = strconv.ParseInt(master.Val()["config-epoch"], 10, 64); err != nil {
		return said, errors.New("SENTINEL MASTER shows no config-epoch")
	}
	for _, v := range others.Val() {
		f := pairs(v)
		if f["runid"] != "" {
			said.others = append(said.others, f["runid"])
		}
		if f["ip"] != "" && f["port"] != "" {
			said.addrs = append(said.addrs, net.JoinHostPort(f["ip"], f["port"]))
		}
	}
	return said, nil
}

// pairs reads a flat list of names and values.
func pairs(v any) map[string]string {
	list, _ := v.([]any)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		k, _ := list[i].(string)
		m[k], _ = list[i+1].(string)
	}
	return m
}

// sentinelRefusal explains a sentinel's refusal.
func sentinelRefusal(err error) error {
	for _, rule := range [...]struct{ word, do string }{
		{"WRONGPASS", "give the sentinels' own user and password (SentinelUsername, SentinelPassword)"},
		{"NOAUTH", "the sentinel wants a password of its own; give SentinelPassword"},
		{"NOPERM", "give the sentinel's user +sentinel|myid +sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +subscribe"},
		{"invalid password", "give the sentinels' own password (SentinelPassword)"},
		{"without any password configured", "the sentinel has no password; leave SentinelPassword out"},
		{"unknown command", "this is no sentinel; give the addresses of the sentinels, usually on port 26379"},
	} {
		if strings.Contains(err.Error(), rule.word) {
			return &ConfigError{What: "refused", Value: err.Error(), Rule: rule.do}
		}
	}
	if isTimeout(err) {
		return fmt.Errorf("no answer within the node timeout: %w", err)
	}
	return err
}
