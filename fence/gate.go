package fence

import "sync"

// Gate keeps the highest number per key in memory, for a process that owns the
// resource. Its zero value is ready. It is safe for concurrent use, must not be
// copied, and remembers each key until Forget: some hundred bytes.
//
// A process that restarts forgets. Open the gate with the numbers that stand with
// the data (Raise), or the first late writer after a restart gets through.
type Gate struct {
	mu sync.Mutex
	m  map[string]*entry
}

// entry is one key.
type entry struct {
	mu      sync.Mutex // held while a write of the key runs
	highest uint64
	users   int  // who has it or waits for it; guarded by the gate's mu
	forget  bool // once nobody has it; guarded by the gate's mu
}

// enter finds a key's entry and locks it.
func (g *Gate) enter(key string) *entry {
	g.mu.Lock()
	if g.m == nil {
		g.m = make(map[string]*entry)
	}
	e := g.m[key]
	if e == nil {
		e = &entry{}
		g.m[key] = e
	}
	e.users++
	g.mu.Unlock()
	e.mu.Lock()
	return e
}

// leave unlocks an entry, and forgets it if that was asked for.
func (g *Gate) leave(key string, e *entry) {
	e.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.users--; e.users == 0 && (e.forget || e.highest == 0) {
		delete(g.m, key)
	}
}

// Do runs write if no higher number than n was seen for key, and from then on
// refuses lower ones. Writes of one key run one after the other, so that no older
// one can still be under way; those of different keys do not wait for each other.
// The number counts as seen also if write fails.
//
// Errors: a *[StaleError] or *[NumberError], with nothing run; else those of write.
func (g *Gate) Do(key string, n uint64, write func() error) error {
	if err := Check(key, n); err != nil {
		return err
	}
	e := g.enter(key)
	defer g.leave(key, e)
	if n < e.highest {
		return &StaleError{Key: key, Fence: n, Highest: e.highest}
	}
	e.highest = n
	return write()
}

// Raise makes n the least number that passes for key, if it is not higher already:
// what was read with the data when the process started. 0 changes nothing.
func (g *Gate) Raise(key string, n uint64) {
	e := g.enter(key)
	defer g.leave(key, e)
	e.highest = max(e.highest, n)
}

// Highest is the highest number seen for key, 0 for none.
func (g *Gate) Highest(key string) uint64 {
	e := g.enter(key)
	defer g.leave(key, e)
	return e.highest
}

// Forget drops a key whose resource is gone for good. A late writer would pass.
func (g *Gate) Forget(key string) {
	e := g.enter(key)
	defer g.leave(key, e)
	g.mu.Lock()
	defer g.mu.Unlock()
	e.forget, e.highest = true, 0
}
