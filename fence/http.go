package fence

import (
	"errors"
	"net/http"
	"strconv"
)

// Header carries the number of a request's lease, in decimal.
const Header = "Redlock-Fence"

// SetHeader puts the number on a request: SetHeader(req.Header, uint64(lease.Fence())).
func SetHeader(h http.Header, n uint64) { h.Set(Header, strconv.FormatUint(n, 10)) }

// Doer is a gate for a service: [*Gate], or anything that runs write and remembers
// the number in one step, with the errors of this package.
type Doer interface {
	Do(key string, n uint64, write func() error) error
}

// Middleware lets requests through a gate, under the key that it computes from
// them, and answers itself to the others:
//
//   - 412 Precondition Failed to an older number; the answer's [Header] has the
//     highest one, where it is known
//   - 428 Precondition Required where the number is missing
//   - 400 Bad Request where it is none
//   - 500 when the gate fails
//
// GET, HEAD, OPTIONS and TRACE need no number. The handler runs inside the gate:
// requests of one key run one after the other.
func Middleware(gate Doer, key func(*http.Request) string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
				next.ServeHTTP(w, r)
				return
			}
			text := r.Header.Get(Header)
			if text == "" {
				http.Error(w, "fence: the header "+Header+" is missing: send the lease's number", http.StatusPreconditionRequired)
				return
			}
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				http.Error(w, "fence: the header "+Header+" is no number from 1 to 2^53-1", http.StatusBadRequest)
				return
			}
			err = gate.Do(key(r), n, func() error {
				next.ServeHTTP(w, r)
				return nil
			})
			refuse(w, err)
		})
	}
}

// refuse answers for a gate that did not let a request through.
func refuse(w http.ResponseWriter, err error) {
	stale := &StaleError{}
	switch {
	case err == nil:
	case errors.As(err, &stale):
		if stale.Highest > 0 {
			SetHeader(w.Header(), stale.Highest)
		}
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case errors.Is(err, ErrStale):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case errors.Is(err, ErrNumber):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, "fence: the gate failed", http.StatusInternalServerError)
	}
}

// Response is the client's side: a *[StaleError] for an answer of 412, with the
// highest number where the service says it; nil for any other. key and n are those
// of the request.
func Response(resp *http.Response, key string, n uint64) error {
	if resp.StatusCode != http.StatusPreconditionFailed {
		return nil
	}
	highest, _ := strconv.ParseUint(resp.Header.Get(Header), 10, 64)
	return &StaleError{Key: key, Fence: n, Highest: highest}
}
