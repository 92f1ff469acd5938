package redlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/seam"
)

// twinEar listens on one channel of one twin, and counts what it hears.
type twinEar struct {
	seam.Ear
	mu    sync.Mutex
	heard map[string]int
	done  chan struct{}
}

// listen opens ears for three of the four channels on both; the fourth belongs to
// a process that died.
func (w *twins) listen() {
	for i, d := range []seam.Listener{w.dialer, w.mem.Dialer().(seam.Listener)} {
		for k := range 3 {
			ear, err := d.Listen(fmt.Sprint("channel", k), 5*time.Second)
			require.NoError(w.t, err)
			e := &twinEar{Ear: ear, heard: make(map[string]int), done: make(chan struct{})}
			w.ears[i] = append(w.ears[i], e)
			go func() {
				defer close(e.done)
				for {
					m, err := e.Next()
					if err != nil {
						return
					}
					e.mu.Lock()
					e.heard[m]++
					e.mu.Unlock()
				}
			}()
		}
	}
}

// heard insists that the same was heard on both, a moment later at most.
func (w *twins) heard() {
	for k, e := range w.ears[1] {
		e, other := e, w.ears[0][k]
		require.Eventually(w.t, func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			other.mu.Lock()
			defer other.mu.Unlock()
			if len(e.heard) != len(other.heard) {
				return false
			}
			for m, n := range e.heard {
				if other.heard[m] != n {
					return false
				}
			}
			return true
		}, 5*time.Second, 200*time.Microsecond, "channel %d: %v, %v", k, &twinHeard{e, other}, w.log)
	}
}

func (w *twins) deafen() {
	for i := range w.ears {
		for _, e := range w.ears[i] {
			e.Close()
			<-e.done
		}
		w.ears[i] = nil
	}
}

// twinHeard tells what two ears heard.
type twinHeard struct{ mem, real7 *twinEar }

func (h *twinHeard) String() string {
	h.mem.mu.Lock()
	defer h.mem.mu.Unlock()
	h.real7.mu.Lock()
	defer h.real7.mu.Unlock()
	return fmt.Sprintf("in memory %v, real %v", h.mem.heard, h.real7.heard)
}
