package redlock_test

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The names and shapes that users compile against. A change here breaks them:
// this file may grow, its lines don't change.
type (
	lockerContract interface {
		Acquire(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lease, error)
		TryAcquire(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lease, error)
		AcquireAll(ctx context.Context, names []string, opts ...redlock.LockOption) (*redlock.Lease, error)
		Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...redlock.LockOption) error
		DoAll(ctx context.Context, names []string, fn func(ctx context.Context) error, opts ...redlock.LockOption) error
		Inspect(ctx context.Context, name string) (redlock.Status, error)
		Break(ctx context.Context, name, token string) error
		Init(ctx context.Context) error
		Reseal(ctx context.Context) error
		Check(ctx context.Context) []redlock.NodeReport
		Close() error
	}
	leaseContract interface {
		Names() []string
		Token() string
		Fence() redlock.Fence
		Until() time.Time
		Err() error
		Context() context.Context
		Extend(ctx context.Context, ttl time.Duration) error
		Release(ctx context.Context) error
	}
	semaphoreContract interface {
		Acquire(ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error)
		TryAcquire(ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error)
		Do(ctx context.Context, fn func(ctx context.Context) error, opts ...redlock.LockOption) error
	}
	clockContract interface {
		Now() time.Time
		AfterFunc(d time.Duration, f func()) (stop func() bool)
	}
)

var (
	_ lockerContract    = (*redlock.Locker)(nil)
	_ leaseContract     = (*redlock.Lease)(nil)
	_ semaphoreContract = (*redlock.Semaphore)(nil)
	_ redlock.Clock     = clockContract(nil)
	_ clockContract     = redlock.Clock(nil)
	_ driver.Valuer     = redlock.Fence(1)

	_ func([]redlock.Node, ...redlock.Option) (*redlock.Locker, error)                                                                                      = redlock.New
	_ func(*redis.Options) redlock.Node                                                                                                                     = redlock.Master
	_ func(*redis.Client) redlock.Node                                                                                                                      = redlock.Client
	_ func(*redis.FailoverOptions, ...redlock.SentinelOption) redlock.Node                                                                                  = redlock.Sentinel
	_ func(*tls.Config) redlock.SentinelOption                                                                                                              = redlock.SentinelTLS
	_ func(*redis.ClusterOptions, int) []redlock.Node                                                                                                       = redlock.Cluster
	_ func(...string) ([]redlock.Node, error)                                                                                                               = redlock.ParseNodes
	_ func(...*redlock.Locker) *redlock.Sharded                                                                                                             = redlock.Shard
	_ func(*redlock.Locker, string, int) *redlock.Semaphore                                                                                                 = redlock.NewSemaphore
	_ func(context.Context) (*redlock.Lease, bool)                                                                                                          = redlock.FromContext
	_ func(testing.TB, int, ...redlock.Option) (*redlock.Locker, *redlocktest.Nodes)                                                                        = redlocktest.NewLocker
	_ func(*redlock.Locker, func(int) string, func(context.Context, int) (string, error), ...redlock.LockOption) func(context.Context, int) (string, error) = redlock.Guard[int, string]

	_ = []redlock.Option{
		redlock.WithMaxTTL(time.Second), redlock.WithNodeTimeout(time.Second), redlock.WithDrift(redlock.Drift{Rate: 0.01, Fixed: time.Millisecond}),
		redlock.WithClock(nil), redlock.WithKeyPrefix(""), redlock.WithHooks(redlock.Hooks{}), redlock.WithLogger((*slog.Logger)(nil)), redlock.WithBestEffort(),
		// a call's options are New's defaults too
		redlock.WithTTL(time.Second), redlock.WithWait(redlock.Forever),
	}
	_ = []redlock.LockOption{
		redlock.WithTTL(time.Second), redlock.WithWait(0), redlock.WithBackoff(redlock.Backoff(func(attempt int) time.Duration { return 0 })),
		redlock.WithFencing(), redlock.WithRenewal(), redlock.WithoutRenewal(), redlock.WithMaxHold(time.Second), redlock.WithMinHold(time.Second),
		redlock.WithReentry(), redlock.WithLabel("host"),
	}
	_ = []error{
		redlock.ErrHeld, redlock.ErrNoQuorum, redlock.ErrLost, redlock.ErrReleased, redlock.ErrConfig,
		redlock.ErrQuarantined, redlock.ErrClosed, redlock.ErrClockSpread,
		&redlock.QuorumError{Name: "", N: 5, Need: 3, Granted: 1, Held: 1, Failed: 1, Pending: 2, RetryAfter: time.Second, Nodes: (*multierror.Error)(nil)},
		&redlock.LostError{Names: []string{""}, Reason: redlock.LostExpired, Until: time.Time{}, Nodes: (*multierror.Error)(nil)},
		&redlock.NodeError{Node: "", Op: "", Err: nil},
		&redlock.ConfigError{What: "", Value: "", Rule: ""},
	}
	_ = []redlock.LostReason{
		redlock.LostExpired, redlock.LostTaken, redlock.LostBroken, redlock.LostNoQuorum, redlock.LostMaxHold, redlock.LostClosed,
	}
	_ = redlock.Status{Name: "", Known: true, Held: true, Token: "", Label: "", TTL: 0, Nodes: []redlock.NodeStatus(nil)}
	_ = redlock.NodeReport{Node: "", OK: true, Findings: []redlock.Finding{{What: "", Do: ""}}}
)

// TestContract: every verb works on in-memory nodes with the shapes above; the
// declarations before it are the larger part of the test.
func TestContract(t *testing.T) {
	l, nodes := redlocktest.NewLocker(t, 5)
	require.NotNil(t, nodes.At(4))
	lease, err := l.Acquire(t.Context(), "name", redlock.WithFencing())
	require.NoError(t, err)
	require.NotZero(t, lease.Fence())
	v, err := lease.Fence().Value()
	require.NoError(t, err)
	require.IsType(t, int64(0), v)
	require.NoError(t, lease.Release(t.Context()))
}
