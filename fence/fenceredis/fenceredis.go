// Package fenceredis fences writes to a Redis: the number is compared and the
// command run in one script, so nothing comes between.
package fenceredis

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/fence"
)

//go:embed fenced.lua
var source string

var script = redis.NewScript(source)

// Do runs one command on key if no higher number than n was seen for it, and
// returns the command's reply:
//
//	fenceredis.Do(ctx, client, "stock:7", uint64(lease.Fence()), "SET", "stock:7", 41)
//
// The command may touch key and what shares its slot in a Cluster. Its words are
// strings, numbers and byte slices. The number stands at "fence:{key}" (at
// "fence:" and the key, where that has a hash tag of its own) without TTL: a number
// that is forgotten lets late writers in, so the server needs persistence and must
// not evict. The number counts as seen also if the command fails.
//
// Errors: a *[fence.StaleError] or *[fence.NumberError], with nothing run; else
// those of the command and of the connection. After an error of the connection the
// command may have run.
func Do(ctx context.Context, c redis.Scripter, key string, n uint64, command ...any) (any, error) {
	if err := fence.Check(key, n); err != nil {
		return nil, err
	}
	if len(command) == 0 {
		return nil, errors.New("fenceredis: no command: give its words after the number")
	}
	args := append([]any{strconv.FormatUint(n, 10)}, command...)
	reply, err := script.Run(ctx, c, []string{NumberKey(key), key}, args...).Slice()
	if err != nil {
		return nil, err
	}
	switch verdict, _ := reply[0].(int64); {
	case verdict == 1 && len(reply) > 1:
		return reply[1], nil
	case verdict == 1:
		return nil, nil //nolint:nilnil // the command's own nil
	}
	text, _ := reply[1].(string)
	highest, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, errors.New("fenceredis: the key " + NumberKey(key) + " has no number; delete it only when no late writer can be left")
	}
	return nil, &fence.StaleError{Key: key, Fence: n, Highest: highest}
}

// NumberKey is where the number of a key stands. A key with a closing brace and no
// hash tag has none in its slot: a Cluster refuses it (CROSSSLOT).
func NumberKey(key string) string {
	if i := strings.IndexByte(key, '{'); i >= 0 && strings.IndexByte(key[i+1:], '}') > 0 {
		return "fence:" + key
	}
	return "fence:{" + key + "}"
}
