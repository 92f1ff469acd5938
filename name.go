package redlock

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxName = 512

// ownKeys begins the keys that stand beside the lock keys. A lock key among them
// could be overwritten by another lock's label.
const ownKeys = "redlock:"

// checkName keeps names to what every node, log and error can carry: long ones
// are refused, never hashed, so that a key can be found by its name.
func (l *Locker) checkName(name string) error {
	switch {
	case strings.HasPrefix(l.set.prefix+name, ownKeys):
		return &ConfigError{"name", fmt.Sprintf("%.32q", name), "makes a key that begins with " + ownKeys +
			", which is where the lock keeps labels and seals; use another name or WithKeyPrefix"}
	case name == "":
		return &ConfigError{"name", `""`, "must not be empty"}
	case len(name) > maxName:
		return &ConfigError{"name", fmt.Sprintf("%.32q… (%d bytes)", name, len(name)),
			fmt.Sprintf("must be at most %d bytes; shorten it, or lock a digest of it", maxName)}
	case !printable(name):
		return &ConfigError{"name", fmt.Sprintf("%q", name), "must be valid UTF-8 without control characters"}
	}
	return nil
}

// printable says whether s is valid UTF-8 without control characters.
func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}
