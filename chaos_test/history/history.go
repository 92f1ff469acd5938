// Package history is the record that lock clients leave behind: one JSON object
// a line, written by the clients and read by the judge, who share nothing else.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// Kind is what a line tells.
type Kind string

// The kinds of lines.
const (
	// Begin is the first line: Client, and the run from At to End.
	Begin Kind = "begin"
	// Acquire is one acquisition, written when it is over: after the release of
	// what was granted.
	Acquire Kind = "acquire"
	// Close is the last line: At, and the goroutines before and after. A history
	// without it is of a client that died, whose last holds nobody wrote down.
	Close Kind = "close"
)

// Result is how an acquisition ended.
type Result string

// The results of an acquisition.
const (
	// OK: granted. Acquired and Released bound what the holder relied on.
	OK Result = "ok"
	// Failed: not granted, and Error says why.
	Failed Result = "failed"
	// Unknown: granted and held as OK, but what became of the release is not
	// known: no majority answered it.
	Unknown Result = "unknown"
)

// Record is one line. Times are nanoseconds of CLOCK_MONOTONIC, which is one
// clock for all processes of a machine: no clock step makes or hides an overlap.
type Record struct {
	Kind     Kind   `json:"kind"`
	Client   string `json:"client"`
	Name     string `json:"name,omitempty"`
	At       int64  `json:"at"`                 // the call's begin
	Acquired int64  `json:"acquired,omitempty"` // after Acquire had returned
	Released int64  `json:"released,omitempty"` // before Release was called, or the end of the validity of a lost lease
	End      int64  `json:"end,omitempty"`      // when a failed acquisition returned; of Begin, the end of the run
	Result   Result `json:"result,omitempty"`
	Lost     bool   `json:"lost,omitempty"` // the lease ended before its release
	Error    string `json:"error,omitempty"`

	Goroutines     int `json:"goroutines,omitempty"`      // Close: after the Locker was closed
	BaseGoroutines int `json:"base_goroutines,omitempty"` // Close: before it was made
}

// Now reads CLOCK_MONOTONIC.
func Now() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
	}
	return ts.Nano(), nil
}

// Writer writes records; it is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	buf *bufio.Writer
	enc *json.Encoder
}

// NewWriter writes to w; Flush before it is closed.
func NewWriter(w io.Writer) *Writer {
	buf := bufio.NewWriter(w)
	return &Writer{buf: buf, enc: json.NewEncoder(buf)}
}

// Write adds a line.
func (w *Writer) Write(r *Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enc.Encode(r)
}

// Flush hands over what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Flush()
}

// Read reads records to the end of r. A line that is torn or unknown is an
// error: a judge must not acquit what it could not read.
func Read(r io.Reader) ([]Record, error) {
	var all []Record
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	for {
		var rec Record
		switch err := dec.Decode(&rec); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("record %d: %w", len(all)+1, err)
		}
		all = append(all, rec)
	}
}
