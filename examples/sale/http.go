package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/redlock-go/redlock"
)

// OneAtATime is middleware that holds a lock while it serves a request. The
// name is computed from the request, as perProduct computes it from an order.
// It waits for a moment and then answers 409 if another request has the lock,
// or 503 if Redis is in trouble, both with Retry-After.
func OneAtATime(l *redlock.Locker, name func(*http.Request) string, wait time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := false
		err := l.Do(r.Context(), name(r), func(ctx context.Context) error {
			served = true
			next.ServeHTTP(w, r.WithContext(ctx))
			return nil
		}, redlock.WithWait(wait))
		if err == nil || served {
			return // the answer is out; that the lease ended under it is for a hook to tell
		}
		status := http.StatusServiceUnavailable
		if errors.Is(err, redlock.ErrHeld) {
			status = http.StatusConflict
		}
		after := time.Second
		if q, ok := errors.AsType[*redlock.QuorumError](err); ok {
			after = max(after, q.RetryAfter)
		}
		w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
		http.Error(w, http.StatusText(status), status)
	})
}

// byProduct names the lock after the path's product.
func byProduct(r *http.Request) string { return "product:" + r.PathValue("product") }
