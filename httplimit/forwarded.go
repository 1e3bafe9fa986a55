package httplimit

import (
	"iter"
	"slices"
	"strings"
)

// fromRight goes through the elements of a list from the last to the first, without the white space
// around them. Empty ones are passed.
func fromRight(lines []string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for at := len(line); at >= 0; {
				line = line[:at]
				at = lastOutside(line, separator)
				element := strings.Trim(line[at+1:], " \t")
				if element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// lastOutside is where the separator stands last outside of quotes, -1 if nowhere. Quotes are
// paired from the right, because the right end is what a trusted proxy wrote: a quote that a client
// left open on the left hides nothing.
func lastOutside(s string, separator byte) int {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case '"':
			escapes := 0
			for escapes < i && s[i-1-escapes] == '\\' {
				escapes++
			}
			if escapes%2 == 0 {
				quoted = !quoted
			}
			i -= escapes
		case separator:
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// forwardedFor is the address in an element of Forwarded, "" if it has none or several.
func forwardedFor(element string) (node string) {
	for parameter := range fromRight([]string{element}, ';') {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimRight(name, " \t"), "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = unquoted(strings.TrimLeft(value, " \t"))
	}
	if at := strings.LastIndex(node, ":_"); at >= 0 { // a port that is hidden
		node = node[:at]
	}
	return node
}

// unquoted is a token or quoted string without quotes. An address needs no escapes, so a string
// that has some is no address, as it stands.
func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
