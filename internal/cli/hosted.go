package cli

import "github.com/alecthomas/kong"

// given are the flags that stand on the command line, not those that a variable
// or a default set.
func given(parsed *kong.Context) map[string]bool {
	on := make(map[string]bool)
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			on[p.Flag.Name] = true
		}
	}
	return on
}

// chooseField settles between servers of our own, n of them, and the user's
// nodes: a flag beats a variable, and two of a kind contradict each other.
func (a *app) chooseField(n *int) error {
	if *n == 0 || len(a.flags.Nodes) == 0 {
		return nil
	}
	switch hosted, nodes := a.given["self-hosted"], a.given["nodes"]; {
	case hosted == nodes:
		return &usageError{"--self-hosted and --nodes exclude each other; give one of them"}
	case hosted:
		a.flags.Nodes = nil
	default:
		*n = 0
	}
	return nil
}
