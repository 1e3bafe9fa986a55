package httplimit

import "strings"

// walk goes through the elements of a list field from the last to the first.
type walk struct {
	lines []string // not walked yet
	line  string   // what is left of the line
	in    bool     // line is one
}

// next is the next element to the left, without the white space around it. Empty ones are passed.
func (w *walk) next() (string, bool) {
	for {
		if !w.in {
			if len(w.lines) == 0 {
				return "", false
			}
			w.line, w.lines, w.in = w.lines[len(w.lines)-1], w.lines[:len(w.lines)-1], true
		}
		at := lastOutside(w.line, ',')
		element := strings.Trim(w.line[at+1:], " \t")
		if at < 0 {
			w.in = false
		} else {
			w.line = w.line[:at]
		}
		if element != "" {
			return element, true
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
	for rest := element; rest != ""; {
		at := lastOutside(rest, ';')
		name, value, _ := strings.Cut(rest[at+1:], "=")
		if strings.EqualFold(strings.Trim(name, " \t"), "for") {
			if node != "" {
				return ""
			}
			node = unquoted(strings.Trim(value, " \t"))
		}
		rest = rest[:max(at, 0)]
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
