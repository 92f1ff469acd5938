package sim

import "time"

// fault is one kind of trouble. It returns how long the node it befell may
// disagree with what it granted: so long no other node is touched, since a
// minority at a time is what the lock assumes.
type fault struct {
	name string
	do   func(w *World, node int) (trouble time.Duration)
}

// faults are within the assumptions of the lock: at any time a minority of
// nodes is in trouble, clocks keep their rates, and nobody deletes keys.
var faults = []fault{
	{"restart empty", func(w *World, n int) time.Duration { w.Nodes[n].Forget(); return w.set.Q }},
	{"flush", func(w *World, n int) time.Duration { w.Nodes[n].Flush(); return w.set.Q }},
	{"restart", restart},
	{"restart with part of the data", func(w *World, n int) time.Duration {
		w.Nodes[n].Kill()
		for _, key := range w.Nodes[n].Keys() {
			if w.Rand.IntN(2) == 0 {
				w.Nodes[n].Delete(key)
			}
		}
		return restart(w, n)
	}},
	{"restart empty, its clock far ahead", func(w *World, n int) time.Duration {
		w.Nodes[n].Forget()
		step := time.Duration(1+w.Rand.IntN(3)) * w.set.Q
		if w.set.Clocks == 0 {
			w.After(time.Duration(w.Rand.Int64N(int64(w.set.TTL/4))), func() { w.Nodes[n].StepClock(step) })
		}
		return w.set.Q
	}},
	{"promotion of a copy that lags", func(w *World, n int) time.Duration {
		lag := time.Duration(w.Rand.Int64N(int64(w.set.TTL)))
		copied := w.Nodes[n].Snapshot()
		w.After(lag, func() {
			w.Nodes[n].Restore(copied)
			w.revived[n] = w.now
		})
		return lag + w.set.Q
	}},
	{"hang", func(w *World, n int) time.Duration {
		w.hung[n] = w.now + time.Duration(w.Rand.Int64N(int64(3*w.set.TTL)))
		return w.hung[n] - w.now
	}},
	{"stopped client", func(w *World, _ int) time.Duration {
		c := w.Rand.IntN(len(w.clients))
		w.paused[c] = w.now + time.Duration(w.Rand.Int64N(int64(2*w.set.TTL)))
		return 0
	}},
	{"cancelled call", func(w *World, _ int) time.Duration {
		c := w.Rand.IntN(len(w.clients))
		w.For(c, 0, w.clients[c].Cancel)
		return 0
	}},
}

func restart(w *World, n int) time.Duration {
	down := time.Duration(w.Rand.Int64N(int64(w.set.TTL)))
	w.Nodes[n].Kill()
	w.After(down, w.Nodes[n].Start)
	return down + w.set.Q
}

// FaultNames lists the kinds.
func FaultNames() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// Revived says that keys may stand on node i that were deleted there: it has the
// data of a copy that did not hear of it, and they have not expired yet.
func (w *World) Revived(i int) bool { return w.revived[i] > 0 && w.now < w.revived[i]+2*w.set.TTL }

// Faults lets trouble begin, until the given time.
func (w *World) Faults(until time.Duration) {
	if w.set.Calm {
		return
	}
	w.After(time.Duration(w.Rand.Int64N(int64(w.set.TTL))), func() { w.fault(until) })
}

func (w *World) fault(until time.Duration) {
	if w.now >= until {
		w.Calm()
		return
	}
	n, f := w.Rand.IntN(len(w.Nodes)), faults[w.Rand.IntN(len(faults))]
	w.Note("fault: %s, node %d", f.name, n)
	for _, c := range w.clients {
		w.Met[f.name+"/"+c.Phase()]++
	}
	// The slack is what a message that was sent before may still take.
	trouble := f.do(w, n)
	if trouble > 0 {
		trouble += w.set.TTL
	}
	w.After(trouble+time.Duration(w.Rand.Int64N(int64(w.set.TTL/2))), func() { w.fault(until) })
}
