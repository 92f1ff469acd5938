package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/judge"
)

// clock is CLOCK_MONOTONIC since the origin of a run. It is one clock for all
// processes of a machine, so no step of the wall clock makes or hides an overlap.
type clock struct {
	origin time.Duration
	at     time.Time     // a moment as Go's clock shows it…
	mono   time.Duration // …and as this one does
}

// monotonic reads CLOCK_MONOTONIC.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// anchorSlack bounds how far the two readings of the anchor are apart.
const anchorSlack = 100 * time.Microsecond

// newClock ties Go's clock, in which a lease says until when it is valid, to
// CLOCK_MONOTONIC. Readings between which the process was interrupted are taken
// again. What is left of the error makes a validity look longer, never shorter:
// it can be blamed on no client, and the drift margin is a hundred times as long.
func newClock(origin time.Duration) (clock, error) {
	c := clock{origin: origin}
	for range 10_000 {
		before, err := monotonic()
		if err != nil {
			return c, err
		}
		c.at = time.Now()
		if c.mono, err = monotonic(); err != nil {
			return c, err
		}
		if c.mono-before < anchorSlack {
			return c, nil
		}
	}
	return c, errors.New("the machine is too busy to read two clocks at once")
}

// now is the time on the history's clock. That the clock can be read was seen
// when it was made.
func (c clock) now() time.Duration {
	now, _ := monotonic()
	return now - c.origin
}

// of is a moment of Go's clock on the history's.
func (c clock) of(t time.Time) time.Duration { return c.mono - c.origin + t.Sub(c.at) }

// beginMark stands before an operation that begins. The judge's reader takes
// such a line for a comment, so the files are histories as they are.
const beginMark = "#begin "

// recorder writes a client's history. Every line is one write, not buffered: a
// process that is killed loses nothing that it had written.
type recorder struct {
	mu   sync.Mutex
	file *os.File
	err  error // the first one; what comes after is lost, and the run is void
}

// begin notes an operation that is about to be done, so that one under way when
// the client is killed is known to be.
func (r *recorder) begin(o judge.Op) {
	o.Outcome, o.End = judge.Unknown, o.Start
	r.line(beginMark, o)
}

// done writes an operation.
func (r *recorder) done(o judge.Op) { r.line("", o) }

func (r *recorder) line(mark string, o judge.Op) {
	text, err := json.Marshal(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.file.Write(append(append([]byte(mark), text...), '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// close ends the record and says whether it is whole.
func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.file.Close())
}

// opKey names an operation: a worker has one of a kind under way at a time.
type opKey struct {
	client, name string
	kind         judge.Kind
	start        time.Duration
}

func keyOf(o *judge.Op) opKey { return opKey{o.Client, o.Name, o.Kind, o.Start} }

// readHistory reads what a client wrote that was gone at ended. An operation
// that began and did not end is Unknown. A torn last line is one that was being
// written when the client was killed.
func readHistory(text []byte, ended time.Duration) (judge.History, error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	h, err := judge.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	open := make(map[opKey]judge.Op)
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(beginMark))
		if !ok {
			continue
		}
		var o judge.Op
		if err := json.Unmarshal(rest, &o); err != nil {
			return nil, fmt.Errorf("%s%w", beginMark, err)
		}
		open[keyOf(&o)] = o
	}
	for i := range h {
		delete(open, keyOf(&h[i]))
	}
	left := make(judge.History, 0, len(open))
	for _, o := range open {
		o.End = max(o.Start, ended)
		left = append(left, o)
	}
	return slices.Concat(h, judge.Merge(left)), nil
}
