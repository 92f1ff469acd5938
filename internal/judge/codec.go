package judge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine holds any Op: three texts whose every byte is escaped, and the rest.
const maxLine = 6*3*maxText + 1024

// Read reads a history: JSON Lines, one Op each, durations in nanoseconds. Empty
// lines and lines that begin with # are skipped. An error names the line, and
// comes with the operations before it. It is an [io.ErrUnexpectedEOF] when the
// last line is torn, as a killed process leaves it.
func Read(r io.Reader) (History, error) {
	var h History
	in := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = fmt.Errorf("longer than %d bytes", maxLine)
			}
			return h, fmt.Errorf("history line %d: %w", n, err)
		}
		last := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			o, err := decode(line)
			if err != nil {
				if last {
					err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
				}
				return h, fmt.Errorf("history line %d: %w", n, err)
			}
			h = append(h, o)
		}
		if last {
			return h, nil //nolint:nilerr // the error is io.EOF, the end
		}
	}
}

// decode is strict: a field that is spelled wrong must not be a zero.
func decode(line []byte) (Op, error) {
	var o Op
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); errors.Is(err, io.ErrUnexpectedEOF) {
		return o, errors.New("not a whole JSON value") // which of a last line only means that it is torn
	} else if err != nil {
		return o, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("more than one value")
	}
	return o, o.check()
}

// Write writes the history as Read reads it, and refuses what Read would.
func (h History) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := range h {
		if err := h[i].check(); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		if err := enc.Encode(&h[i]); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return out.Flush()
}
