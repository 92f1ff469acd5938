package fenceredis_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fenceredis"
	"github.com/redlock-go/redlock/fence/fencetest"
	"github.com/redlock-go/redlock/internal/redisproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a Redis as a resource.
type server struct{ c *redis.Client }

func newServer(t *testing.T) server {
	t.Helper()
	if _, err := redisproc.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	servers, err := redisproc.StartN(context.Background(), 1, redisproc.Options{})
	require.NoError(t, err)
	c := redis.NewClient(&redis.Options{Addr: servers[0].Addr()})
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		_ = servers[0].Close()
	})
	return server{c}
}

func (s server) Write(ctx context.Context, key string, n uint64, value string) error {
	_, err := fenceredis.Do(ctx, s.c, key, n, "SET", key, value)
	return err
}

func (s server) Read(ctx context.Context, key string) (string, error) {
	text, err := s.c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return text, err
}

// Reopen is another client of the same server.
func (s server) Reopen(context.Context) (fencetest.Resource, error) { return s, nil }

func TestRedis(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource { return newServer(t) })
}

func TestRedisReplies(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	got, err := fenceredis.Do(ctx, s.c, "n", 35, "INCRBY", "n", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, got)
	got, err = fenceredis.Do(ctx, s.c, "n", 35, "GET", "n")
	require.NoError(t, err)
	require.Equal(t, "5", got)
	got, err = fenceredis.Do(ctx, s.c, "n", 36, "SET", "n", []byte("x"), "NX")
	require.NoError(t, err)
	require.Nil(t, got, "the command's own nil")

	_, err = fenceredis.Do(ctx, s.c, "n", 35, "DEL", "n")
	stale, ok := errors.AsType[*fence.StaleError](err)
	require.True(t, ok)
	require.Equal(t, fence.StaleError{Key: "n", Fence: 35, Highest: 36}, *stale)
	_, err = fenceredis.Do(ctx, s.c, "n", 37, "INCR", "n", "too", "many")
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
	_, err = fenceredis.Do(ctx, s.c, "n", 36, "DEL", "n")
	require.ErrorIs(t, err, fence.ErrStale, "a number counts as seen also if the command failed")
	_, err = fenceredis.Do(ctx, s.c, "n", 38)
	require.ErrorContains(t, err, "no command")
	require.NoError(t, s.c.Set(ctx, fenceredis.NumberKey("n"), "x", 0).Err())
	_, err = fenceredis.Do(ctx, s.c, "n", 99, "DEL", "n")
	require.ErrorContains(t, err, "has no number")
}

func TestNumberKeySharesTheSlot(t *testing.T) {
	require.Equal(t, "fence:{a}", fenceredis.NumberKey("a"))
	require.Equal(t, "fence:x{a}y", fenceredis.NumberKey("x{a}y"))
	require.Equal(t, "fence:{x{y}", fenceredis.NumberKey("x{y"))
}
