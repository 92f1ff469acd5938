package report

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// clean makes a text fit to be shown: what has no glyph, or would turn the text
// around it, is spelled out, and no more than so many runes are kept. Names come
// from the run, and a fuzzer picks them.
func clean(s string, runes int) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) >= 0 {
		s = s[:min(len(s), 4*runes+utf8.UTFMax)] // no rune is longer, so enough is left
		s = strconv.Quote(s)
		s = s[1 : len(s)-1]
	}
	n := 0
	for i := range s {
		if n++; n > runes {
			return s[:i] + "…"
		}
	}
	return s
}

// command is cleaned by lines, since a command may have several.
func command(s string) string {
	s = strings.Trim(s, "\n")
	if len(s) > 8192 {
		s = s[:8192] + "…"
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(l, "\t", "    "), 4096)
	}
	return strings.Join(lines, "\n")
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// number groups the digits: 12,345.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number and what is counted.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + more
}

// exact is a moment, to the microsecond: enough to find it in a log.
func exact(d time.Duration) string { return tidy(d.Round(time.Microsecond)) }

// short is a length of time, to three digits, which is what a reader compares.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for n := d.Abs(); n >= 1000; n /= 10 {
		unit *= 10
	}
	return tidy(d.Round(min(unit, time.Second))) // of an hour three digits would be too coarse
}

// tidy drops the zeros that Duration writes behind minutes and hours.
func tidy(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// natural orders c2 before c10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
