package redlock

import "time"

// rttWindow is for how long a round trip is remembered, at least.
const rttWindow = 10 * time.Second

// roundTrip is the least round trip of the last ten to twenty seconds: what the
// link takes, without what load adds to it. Under load a full pipeline is what
// makes a lane fast, and more lanes would only make for shorter ones.
type roundTrip struct {
	current, last time.Duration // 0 = none yet
	since         time.Duration // monotonic; of current
}

func (r *roundTrip) measure(d, now time.Duration) {
	if now-r.since > rttWindow {
		r.last, r.current, r.since = r.current, d, now
		return
	}
	if r.current == 0 || d < r.current {
		r.current = d
	}
}

// least is 0 while nothing was measured.
func (r *roundTrip) least() time.Duration {
	if r.last != 0 && r.last < r.current {
		return r.last
	}
	return r.current
}
