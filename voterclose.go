package redlock

// This file is how a voter's lanes end.

// drain ends a lane: what still waits on a connection that works is sent, so
// that a process which ends right after a failed attempt or a Release leaves
// nothing behind. Each batch is bounded by the node timeout.
func (r *runner) drain() {
	v := r.v
	v.mu.Lock()
	running := r.running
	r.running = true
	v.mu.Unlock()
	if running {
		<-r.kick // from whoever runs the lane, when it hands it over or is done
	}
	for r.conn != nil {
		v.mu.Lock()
		if r.l.phase != phaseOpen || len(r.l.queue) == 0 {
			v.mu.Unlock()
			break
		}
		w, dropped := r.l.next(quick(v.clock), nil)
		v.mu.Unlock()
		v.cancelled(dropped)
		if w != wantSend {
			break
		}
		r.send()
	}
	v.mu.Lock()
	left := r.l.queue
	r.l.queue = nil
	v.mu.Unlock()
	for _, c := range left {
		deliver(c, &answer{vote: voteFailed, err: ErrClosed})
	}
	r.hangUp()
}

// close ends the lanes and waits for them. A dial or a batch that is out ends
// by the node timeout at the latest.
func (v *voter) close() {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		close(v.done)
	}
	v.mu.Unlock()
	v.wg.Wait()
}
