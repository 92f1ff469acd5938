// Command orders tells the story of a release that frees someone else's lock,
// and of the one that does not.
package main

import (
	"fmt"
	"os"
)

func main() {
	out := os.Stdout
	fmt.Fprintln(out, "The wrong release, GET and then DEL:")
	fmt.Fprintln(out)
	overran(out, false)
	between(out, false)
	fmt.Fprintln(out, "The right one, compare-and-delete in one script:")
	fmt.Fprintln(out)
	overran(out, true)
	between(out, true)
	own(out)
}
