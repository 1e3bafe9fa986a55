package main

import (
	"regexp"
	"strings"
)

// luaPiece is a text, a comment, a name, a number, or one other sign.
var luaPiece = regexp.MustCompile(
	`^(--\[(=*)\[|\[(=*)\[|--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|[\w.]+|\s+|[=~<>]=|.)`)

// eachPiece splits Lua.
func eachPiece(text string, f func(at int, piece string)) {
	for at := 0; at < len(text); {
		m := luaPiece.FindStringSubmatch(text[at:])
		piece := m[0]
		if strings.HasSuffix(piece, "[") && strings.Count(piece, "[") == 2 { // up to its end, over many lines
			closing := "]" + m[2] + m[3] + "]"
			if end := strings.Index(text[at:], closing); end >= 0 {
				piece = text[at : at+end+len(closing)]
			} else {
				piece = text[at:]
			}
		}
		f(at, piece)
		at += len(piece)
	}
}

func luaSource(text []byte) *source {
	s := newSource(string(text), "--")
	line, start := 0, 0
	eachPiece(string(text), func(at int, piece string) {
		breaks := strings.Count(piece, "\n")
		switch {
		case strings.HasPrefix(piece, "--") && breaks == 0:
			s.comment(line, at-start)
		case breaks > 0 && strings.TrimSpace(piece) != "":
			for j := range breaks + 1 {
				s.fixed[line+j] = true
			}
		}
		if breaks > 0 {
			line += breaks
			start = at + strings.LastIndexByte(piece, '\n') + 1
		}
	})
	return s
}

func longLua(path string, text []byte) []finding { return luaSource(text).long(path) }

func fixLua(text []byte) []byte {
	out := luaSource(text).unload(func(code string) bool {
		for _, end := range []string{" then", " do", "else", "{"} {
			if strings.HasSuffix(code, end) {
				return true
			}
		}
		return strings.Contains(code, "function") && strings.HasSuffix(code, ")")
	})
	for range 20 {
		next := breakLua(out)
		if next == out {
			break
		}
		out = next
	}
	out = luaSource([]byte(out)).rewrap()
	if luaCode(out) != luaCode(string(text)) {
		return text
	}
	return []byte(out)
}

// luaCode is what Lua sees.
func luaCode(text string) string {
	var b strings.Builder
	eachPiece(text, func(_ int, piece string) {
		if strings.TrimSpace(piece) != "" && !strings.HasPrefix(piece, "--") {
			b.WriteString(piece + "\x00")
		}
	})
	return b.String()
}

// breakLua breaks every line of code that is too long: behind a comma, or before and, or, .. and =.
func breakLua(text string) string {
	s := luaSource([]byte(text))
	gaps := make([][]gap, len(s.lines))
	line, start := 0, 0
	open := []string{""}
	eachPiece(text, func(at int, piece string) {
		inner := open[len(open)-1]
		switch piece {
		case "(", "{", "[", "function", "if", "do", "repeat":
			open = append(open, piece)
		case ")", "}", "]", "end", "until":
			open = open[:max(1, len(open)-1)]
		case ",":
			gaps[line] = append(gaps[line], gap{at + 1 - start, 2 * len(open)})
		case "and", "or", "..":
			gaps[line] = append(gaps[line], gap{at - start, 2 * len(open)})
		case "=":
			if inner != "{" && inner != "(" { // an assignment
				gaps[line] = append(gaps[line], gap{at + 1 - start, 2*len(open) - 1})
			}
		}
		if n := strings.Count(piece, "\n"); n > 0 {
			line += n
			start = at + strings.LastIndexByte(piece, '\n') + 1
		}
	})
	var out []string
	for i, line := range s.lines {
		if s.remark[i] || s.fixed[i] || columns(line) <= codeColumns {
			out = append(out, line)
			continue
		}
		best, ok := bestGap(gaps[i], line, 0, codeColumns)
		if !ok {
			out = append(out, line)
			continue
		}
		indent := indentOf(line)
		if i == 0 || !strings.HasSuffix(strings.TrimSpace(s.lines[i-1]), ",") ||
			len(indentOf(s.lines[i-1])) >= len(indent) {
			indent += "  "
		}
		out = append(out, strings.TrimRight(line[:best.at], " "), indent+strings.TrimSpace(line[best.at:]))
	}
	return strings.Join(out, "\n")
}
