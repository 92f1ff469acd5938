// Command redlock locks names on a quorum of Redis masters from a shell.
package main

import (
	"context"
	"os"

	"github.com/redlock-go/redlock/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
