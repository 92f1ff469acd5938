package redlock

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before the given attempt is repeated; the
// first attempt is 1. It must be safe for concurrent use; state belongs to the
// attempt number, not to the function.
type Backoff func(attempt int) time.Duration

// FullJitter waits a random time between zero and a ceiling that starts at
// first and doubles with every attempt up to most: callers that collided once
// spread out (hazard H31). Both must be above zero; else it is nil, which New
// and Acquire refuse.
func FullJitter(first, most time.Duration) Backoff {
	if first <= 0 || most <= 0 {
		return nil
	}
	return func(attempt int) time.Duration {
		ceiling := most
		if shift := attempt - 1; shift < 32 && first<<shift < most && first<<shift > 0 {
			ceiling = first << shift
		}
		return time.Duration(rand.Int64N(int64(ceiling) + 1))
	}
}
