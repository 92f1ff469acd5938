package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sale is a shop with several servers on three nodes in memory, in virtual time.
func sale(t *testing.T, f func(t *testing.T, lockers []*redlock.Locker, nodes *redlocktest.Nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first, nodes := redlocktest.NewLocker(t, 3)
		lockers := []*redlock.Locker{first}
		for range servers - 1 {
			lockers = append(lockers, nodes.NewLocker(t))
		}
		f(t, lockers, nodes)
	})
}

// soldBy lets all buyers loose on one way of selling.
func soldBy(t *testing.T, w way) (sold int64, took time.Duration) {
	t.Helper()
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		shop := NewShop(map[string]int64{products[0]: stock, products[1]: stock, products[2]: stock}, 50*time.Millisecond)
		var sellers []Seller
		for _, l := range lockers {
			sellers = append(sellers, w.seller(shop, l))
		}
		start := time.Now()
		require.NoError(t, rush(t.Context(), sellers))
		took = time.Since(start)
		for _, p := range products {
			sold += shop.Sold(p)
		}
	})
	return sold, took
}

func TestAMutexPerServerOversells(t *testing.T) {
	sold, _ := soldBy(t, ways()[0])
	require.Greater(t, sold, int64(stock*len(products)))
}

func TestALockPerProductSellsExactlyTheStock(t *testing.T) {
	sold, _ := soldBy(t, ways()[1])
	require.EqualValues(t, stock*len(products), sold)
}

func TestAKeyThatIsTooNarrowOversells(t *testing.T) {
	sold, _ := soldBy(t, ways()[2])
	require.Greater(t, sold, int64(stock*len(products)))
}

func TestAKeyThatIsTooWideQueuesEverybody(t *testing.T) {
	sold, wide := soldBy(t, ways()[3])
	require.EqualValues(t, stock*len(products), sold)
	_, right := soldBy(t, ways()[1])
	require.Greater(t, wide, right*3/2, "three products in one queue")
}

func TestProductsDoNotWaitForEachOther(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		slow := NewShop(map[string]int64{"poster": 1, "calendar": 1}, time.Second)
		sell := slow.Locked(lockers[0], perProduct)
		start := time.Now()
		var wg sync.WaitGroup
		for product := range slow.stock {
			wg.Go(func() {
				_, err := sell(t.Context(), Order{Product: product})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestAPaymentInsideTheLockOutlivesTheLease(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		shop := NewShop(map[string]int64{"poster": 1}, think)
		inside := redlock.Guard(lockers[0], perProduct, shop.payInside(&Bank{Takes: time.Minute}),
			redlock.WithTTL(5*time.Second), redlock.WithoutRenewal())
		start := time.Now()
		_, err := inside(t.Context(), Order{Product: "poster"})
		require.ErrorIs(t, err, redlock.ErrLost, "it is told, and stopped, when the lease ends")
		require.Less(t, time.Since(start), 5*time.Second)
		require.Zero(t, shop.Sold("poster"))
	})
}

func TestThePaymentStaysOutsideTheLock(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		shop := NewShop(map[string]int64{"poster": 2}, think)
		reserve := shop.Locked(lockers[0], perProduct)
		var wg sync.WaitGroup
		start := time.Now()
		for id := range 2 {
			wg.Go(func() {
				require.NoError(t, shop.Checkout(t.Context(), reserve, &Bank{Takes: time.Minute}, Order{id, "poster"}))
			})
		}
		wg.Wait()
		require.Less(t, time.Since(start), 61*time.Second, "the two payments ran side by side")
		require.EqualValues(t, 2, shop.Sold("poster"))
		require.ErrorIs(t, shop.Checkout(t.Context(), reserve, &Bank{}, Order{3, "poster"}), ErrSoldOut)
	})
}

func TestADeclinedPaymentPutsTheItemBack(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		shop := NewShop(map[string]int64{"poster": 1}, think)
		reserve := shop.Locked(lockers[0], perProduct)
		require.ErrorIs(t, shop.Checkout(t.Context(), reserve, &Bank{Decline: true}, Order{1, "poster"}), ErrDeclined)
		require.NoError(t, shop.Checkout(t.Context(), reserve, &Bank{}, Order{2, "poster"}))
		require.EqualValues(t, 1, shop.Sold("poster"))
	})
}

func TestACrashedServerIsFreedByItsLease(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, nodes *redlocktest.Nodes) {
		for i := range nodes.Len() { // what a server left that was killed in its critical section
			nodes.At(i).Put("lock:product:poster", "a server that is no more", 8*time.Second)
		}
		shop := NewShop(map[string]int64{"poster": 1}, think)
		start := time.Now()
		_, err := shop.Locked(lockers[1], perProduct)(t.Context(), Order{Product: "poster"})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 8*time.Second)
		require.Less(t, time.Since(start), 9*time.Second)
	})
}

func TestWaitAndLeaseAreSeparate(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, _ *redlocktest.Nodes) {
		shop := NewShop(map[string]int64{"poster": 5}, 3*time.Second)
		busy, err := lockers[0].Acquire(t.Context(), "product:poster")
		require.NoError(t, err)
		impatient := shop.Locked(lockers[1], perProduct, redlock.WithWait(time.Second), redlock.WithTTL(500*time.Millisecond))
		start := time.Now()
		_, err = impatient(t.Context(), Order{Product: "poster"})
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.InDelta(t, 1, time.Since(start).Seconds(), 0.05, "it waited for the wait, not for the lease")
		require.NoError(t, busy.Release(t.Context()))
		_, err = impatient(t.Context(), Order{Product: "poster"})
		require.NoError(t, err, "three seconds of work under a lease of half a second: it is renewed")
		held, err := lockers[0].Acquire(t.Context(), "product:poster")
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = held.Release(context.Background()) })
		start = time.Now()
		_, err = shop.Locked(lockers[2], perProduct)(t.Context(), Order{Product: "poster"})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), time.Minute, "without a wait it is for ever")
	})
}

func TestMiddleware(t *testing.T) {
	sale(t, func(t *testing.T, lockers []*redlock.Locker, nodes *redlocktest.Nodes) {
		mux := http.NewServeMux()
		mux.Handle("POST /buy/{product}", OneAtATime(lockers[0], byProduct, 100*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, held := redlock.FromContext(r.Context())
			if !held {
				t.Error("the handler runs without the lease in its context")
			}
			w.WriteHeader(http.StatusCreated)
		})))
		buy := func(product string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/buy/"+product, http.NoBody))
			return w
		}
		require.Equal(t, http.StatusCreated, buy("poster").Code)
		busy, err := lockers[1].Acquire(t.Context(), "product:poster")
		require.NoError(t, err)
		w := buy("poster")
		require.Equal(t, http.StatusConflict, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusCreated, buy("calendar").Code)
		require.NoError(t, busy.Release(t.Context()))
		nodes.At(0).Kill()
		nodes.At(1).Kill()
		require.Equal(t, http.StatusServiceUnavailable, buy("poster").Code)
	})
}
