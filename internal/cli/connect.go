package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

// urls are the nodes that the flags name, with the passwords that they have or get.
func (a *app) urls() ([]string, error) {
	given, err := a.env.passwords()
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, list := range a.flags.Nodes {
		for _, node := range splitNodes(list) {
			if node != "" {
				urls = append(urls, given.apply(node))
			}
		}
	}
	return urls, nil
}

// nodes are the voters that the flags name.
func (a *app) nodes() ([]redlock.Node, error) {
	urls, err := a.urls()
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, &usageError{"no nodes; name three or five independent Redis masters with --nodes or REDLOCK_NODES"}
	}
	return redlock.ParseNodes(urls...)
}

// locker connects to the nodes that the flags name.
func (a *app) locker() (*redlock.Locker, error) {
	nodes, err := a.nodes()
	if err != nil {
		return nil, err
	}
	return redlock.New(nodes, a.options()...)
}

// options are the Locker's, from the flags.
func (a *app) options() []redlock.Option {
	f := a.flags
	opts := []redlock.Option{
		redlock.WithTTL(time.Duration(f.TTL)), redlock.WithMaxTTL(time.Duration(f.MaxTTL)),
		redlock.WithKeyPrefix(f.Prefix),
		redlock.WithLogger(slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	}
	if f.NodeTimeout != 0 {
		opts = append(opts, redlock.WithNodeTimeout(time.Duration(f.NodeTimeout)))
	}
	if f.BestEffort {
		opts = append(opts, redlock.WithBestEffort())
	}
	return opts
}

// printJSON prints one object on stdout.
func (a *app) printJSON(v any) error { return encodeJSON(a.stdout, v) }

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table prints rows in columns as wide as they need.
func (a *app) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
				break
			}
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		fmt.Fprintln(a.stdout, strings.TrimRight(b.String(), " "))
	}
}
