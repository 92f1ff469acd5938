package redlock_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/cli"
)

// operations is docs/operations.md, which must not cite what is not there.
func operations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	return string(text)
}

// sources is all Go text of some folders.
func sources(t *testing.T, folders ...string) string {
	t.Helper()
	var all bytes.Buffer
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				text, err := os.ReadFile(f)
				require.NoError(t, err)
				all.Write(text)
			}
		}
	}
	return all.String()
}

// TestOperationsCommands holds every command of the operators' page to the help
// of the command line.
func TestOperationsCommands(t *testing.T) {
	command := regexp.MustCompile("redlock((?: --[a-z-]+(?: [^-\\s`]\\S*)?)*) ([a-z]+)([^`\n|#;]*)")
	flag := regexp.MustCompile(`--[a-z-]+`)
	help := func(args ...string) string {
		var out bytes.Buffer
		require.Zero(t, cli.Run(t.Context(), append(args, "--help"), nil, nil, &out, &out))
		return out.String()
	}
	top := help()
	cited := 0
	for _, part := range regexp.MustCompile("(?s)```sh.*?```|`[^`\n]+`").FindAllString(operations(t), -1) {
		for _, m := range command.FindAllStringSubmatch(part, -1) {
			if !strings.Contains(top, "\n  "+m[2]) {
				if strings.HasPrefix(strings.Trim(part, "`"), "redlock "+m[2]) {
					t.Errorf("no such command: %s", m[0])
				}
				continue
			}
			cited++
			own, _, _ := strings.Cut(m[3], " -- ")
			for _, f := range flag.FindAllString(m[1]+own, -1) {
				require.Contains(t, help(m[2]), f, "in %q", m[0])
			}
		}
	}
	require.Greater(t, cited, 5)
}

// TestOperationsNames holds the options, hooks, errors and log lines that it
// cites to the source, its bench flags to the bench, its links to files.
func TestOperationsNames(t *testing.T) {
	text, root := operations(t), sources(t, ".")
	for _, m := range regexp.MustCompile("`(redlock: [^`]+)`").FindAllStringSubmatch(text, -1) {
		require.Contains(t, root, `"`+m[1]+`"`, "a log line")
	}
	names := regexp.MustCompile("`((?:With|Err|Node|Lost|Acquire|Renewed|Released|Shard|Do|Lease)[A-Za-z.]*)[`(]").FindAllStringSubmatch(text, -1)
	require.Greater(t, len(names), 15)
	for _, m := range names {
		_, member, ok := strings.Cut(m[1], ".")
		if !ok {
			member = m[1]
		}
		require.Regexp(t, `(?m)(^func (\([^)]*\) )?|^\s+|^type )`+member+`\b`, root, m[1])
	}
	for _, m := range regexp.MustCompile(`go run \. -([a-z]+)`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, sources(t, "bench"), `"`+m[1]+`"`, "a flag of the bench")
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(text, -1) {
		require.FileExists(t, filepath.Join("docs", m[1]))
	}
}
