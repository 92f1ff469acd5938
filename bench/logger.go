package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet keeps go-redis from writing a line per failed dial: here nodes are
// broken on purpose.
func quiet() { redis.SetLogger(noLog{}) }

type noLog struct{}

// Printf is redis's logger, which we don't want.
func (noLog) Printf(context.Context, string, ...any) {}
