// Command testjson reads what go test -json says and prints what go test
// without -v would have, and the tests that were skipped with their reasons.
// How long each test took is appended to the file that it is given.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of go test -json (see go doc test2json).
type event struct {
	Action  string  `json:"Action"`
	Package string  `json:"Package"`
	Test    string  `json:"Test"`
	Output  string  `json:"Output"`
	Elapsed float64 `json:"Elapsed"`
}

// key names one test of one package; the package itself has no test.
type key struct{ pkg, test string }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | testjson FILE")
		os.Exit(64)
	}
	times, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		err = filter(os.Stdin, os.Stdout, times)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testjson:", err)
		os.Exit(1)
	}
}

// filter copies events to human, as text, and the time of each test to times.
func filter(events io.Reader, human, times io.Writer) error {
	said := map[key][]string{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(human, line) // not an event: a message of the go command
			} else {
				e.handle(said, human, times)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// handle keeps what a test says until it is known whether anyone should see it.
func (e event) handle(said map[key][]string, human, times io.Writer) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(human, e.Output)
	case "output":
		said[k] = append(said[k], e.Output)
	case "pass", "fail", "skip":
		for _, s := range said[k] {
			if e.shows(s) {
				fmt.Fprint(human, s)
			}
		}
		delete(said, k)
		if e.Test != "" {
			fmt.Fprintf(times, "%.2f\t%s\t%s\t%s\n", e.Elapsed, e.Action, e.Test, e.Package)
		}
	}
	if e.Test == "" && e.Action == "fail" { // a panic leaves tests without an end
		for k, lines := range said {
			if k.pkg == e.Package {
				fmt.Fprint(human, strings.Join(lines, ""))
				delete(said, k)
			}
		}
	}
}

// shows reports whether a line is one that go test shows without -v.
func (e event) shows(line string) bool {
	switch {
	case strings.HasPrefix(line, "=== "):
		return false
	case e.Test != "":
		return e.Action != "pass"
	case e.Action == "fail":
		return true
	}
	return strings.HasPrefix(line, "ok  ") || strings.HasPrefix(line, "?   ")
}
