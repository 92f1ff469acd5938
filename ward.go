package redlock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ward is what the nodes of one Locker have to agree on: one deployment, N
// different servers, no foreign seal. It is shared by all lanes.
type ward struct {
	mode       string
	n          int
	maxTTL     time.Duration
	quarantine time.Duration // Q
	// Where the seal and the quarantine stand on every node.
	sealKey, quarantineKey string

	mutant mutant // guards that a test turned off

	mu      sync.Mutex
	asked   []bool   // answered the connection check, or failed it, at least once
	unasked int      //
	runIDs  []string // of the servers that are connected now
	groups  []int    // which places may be one server: the buckets of one Cluster; nil for none
	names   []string
	foreign []error // a foreign seal, as the ConfigError that it makes

	nForeign atomic.Int32 // read without the lock on the hot path
	byHand   atomic.Int32 // an Init or Reseal is at work: the lanes leave sealing to it
	wanted   atomic.Bool  // somebody asked for a lock: who only looks writes nothing
}

func newWard(names []string, mode, prefix string, maxTTL time.Duration) *ward {
	n := len(names)
	return &ward{
		mode: mode, n: n, maxTTL: maxTTL, quarantine: quarantineFor(maxTTL),
		sealKey: "redlock:seal:" + prefix, quarantineKey: "redlock:quarantine:" + prefix,
		asked: make([]bool, n), unasked: n, runIDs: make([]string, n), names: names, foreign: make([]error, n),
	}
}

// spec is the seal that node i should bear.
func (w *ward) spec(db int) sealSpec {
	return sealSpec{mode: w.mode, n: w.n, maxTTL: w.maxTTL.Truncate(time.Millisecond), db: db}
}

// ask records that node i was asked for its seal, with or without an answer.
// It reports whether that was the last one that was missing: the nodes that
// wait to be sealed may go on then.
func (w *ward) ask(i int) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked[i] {
		return false
	}
	w.asked[i] = true
	w.unasked--
	return w.unasked == 0
}

// maySeal says whether a node may be sealed: not before every node was asked,
// and never while one bears a foreign seal. Otherwise clients of N = 3 and of
// N = 5 could both win after one restart (hazard H21).
func (w *ward) maySeal() bool {
	if !w.wanted.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mutant.has(mutantSealEarly) {
		return w.byHand.Load() == 0
	}
	return w.unasked == 0 && w.nForeign.Load() == 0 && w.byHand.Load() == 0
}

// meet records that node i is the server runID, and says which other node of
// the list that server is already (hazard H17).
func (w *ward) meet(i int, runID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for j, id := range w.runIDs {
		if j != i && id == runID && (w.groups == nil || w.groups[i] != w.groups[j]) && runID != "" && !w.mutant.has(mutantSameServer) {
			return &ConfigError{
				What: "node " + w.names[i], Value: "",
				Rule: fmt.Sprintf("is the same server as node %s (run_id %.8s…); list every server once", w.names[j], runID),
			}
		}
	}
	w.runIDs[i] = runID
	return nil
}

// part forgets the server behind node i, whose last connection is gone.
func (w *ward) part(i int) {
	w.mu.Lock()
	w.runIDs[i] = ""
	w.mu.Unlock()
}

// sawForeign records the foreign seal on node i and returns the error it makes.
func (w *ward) sawForeign(i int, spec sealSpec, got seal, text string) error {
	err := &ConfigError{
		What: "node " + w.names[i], Value: "",
		Rule: fmt.Sprintf("is sealed for another setting: it has %s, this client has %s; set every client alike, "+
			"or change the deployment with Reseal (redlock init --replace)", got.describe(text), spec),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreign[i] == nil {
		w.nForeign.Add(1)
	}
	w.foreign[i] = err
	return err
}

// sawOwn records that node i bears no foreign seal (any more).
func (w *ward) sawOwn(i int) {
	if w.nForeign.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreign[i] != nil {
		w.foreign[i] = nil
		w.nForeign.Add(-1)
	}
}

// foreignError is the foreign seal that keeps every vote from counting, if
// there is one, and the nodes that bear one.
func (w *ward) foreignError() error {
	if w.nForeign.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.foreign {
		if err != nil {
			return err
		}
	}
	return nil
}

// foreignNodes lists the nodes that bore a foreign seal when last asked.
func (w *ward) foreignNodes() []int {
	if w.nForeign.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var nodes []int
	for i, err := range w.foreign {
		if err != nil {
			nodes = append(nodes, i)
		}
	}
	return nodes
}
