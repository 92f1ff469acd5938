package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/redisproc"
)

// servers are redis-servers without persistence, on loopback, and a client to
// each that looks at what is left there.
type servers struct {
	procs []*redisproc.Server
	addrs []string
	admin []*redis.Client
}

func startServers(ctx context.Context, n int) (*servers, error) {
	procs, err := redisproc.StartN(ctx, n, redisproc.Options{})
	if err != nil {
		return nil, err
	}
	s := &servers{procs: procs}
	for _, p := range procs {
		s.addrs = append(s.addrs, p.Addr())
		s.admin = append(s.admin, redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, DialerRetries: 1}))
	}
	return s, nil
}

// keys counts the keys that contain part on the servers that are up, but for
// what this library leaves there on purpose.
func (s *servers) keys(ctx context.Context, part string) (n int, err error) {
	for i, p := range s.procs {
		if p.PID() == 0 {
			continue
		}
		scan := s.admin[i].Scan(ctx, 0, "*", 1000).Iterator()
		for scan.Next(ctx) {
			k := scan.Val()
			if strings.Contains(k, part) && !strings.HasPrefix(k, "redlock:seal:") && !strings.HasPrefix(k, "redlock:quarantine:") {
				n++
			}
		}
		if err := scan.Err(); err != nil {
			return n, fmt.Errorf("counting keys on %s: %w", s.addrs[i], err)
		}
	}
	return n, nil
}

func (s *servers) close() error {
	var errs []error
	for i := range s.procs {
		errs = append(errs, s.admin[i].Close(), s.procs[i].Close())
	}
	s.procs, s.admin = nil, nil
	return errors.Join(errs...)
}
