package main

import (
	"fmt"
	"strings"
)

// A source says of each line what it is.
type source struct {
	lines  []string
	marker string
	remark []bool // holds nothing but a comment
	after  []int  // where the comment behind the code begins; -1 without one
	fixed  []bool // inside of a long string, a long comment or a remark that continues one behind code
}

func newSource(text, marker string) *source {
	s := &source{lines: strings.Split(text, "\n"), marker: marker}
	s.remark = make([]bool, len(s.lines))
	s.fixed = make([]bool, len(s.lines))
	s.after = make([]int, len(s.lines))
	for i := range s.after {
		s.after[i] = -1
	}
	return s
}

// comment notes that one begins in line i at that byte.
func (s *source) comment(i, at int) {
	if strings.TrimSpace(s.lines[i][:at]) != "" {
		s.after[i] = at
		return
	}
	s.remark[i] = true
	if i > 0 && (s.after[i-1] >= 0 || s.fixed[i-1] && s.remark[i-1]) {
		s.fixed[i] = len(indentOf(s.lines[i])) > len(indentOf(s.lines[i-1]))+8
	}
}

func (s *source) long(path string) (found []finding) {
	output := false // of an example: a program reads it
	for i, line := range s.lines {
		n := columns(line)
		output = s.remark[i] && (output || shows.MatchString(strings.TrimLeft(line, "\t /")))
		switch {
		case output:
		case s.remark[i] && n > proseColumns && len(words(strings.TrimSpace(line))) > 2:
			found = append(found, finding{path, i + 1, false, fmt.Sprintf("comment of %d columns", n)})
		case !s.remark[i] && n > codeColumns:
			found = append(found, finding{path, i + 1, true, fmt.Sprintf("code of %d columns", n)})
		}
	}
	return found
}

// rewrap wraps every remark of the source.
func (s *source) rewrap() string {
	var out []string
	for i := 0; i < len(s.lines); {
		if !s.remark[i] || s.fixed[i] {
			out = append(out, s.lines[i])
			i++
			continue
		}
		r := remark{indent: indentOf(s.lines[i]), marker: s.marker}
		for ; i < len(s.lines) && s.remark[i] && !s.fixed[i] && indentOf(s.lines[i]) == r.indent; i++ {
			r.lines = append(r.lines, s.lines[i][len(r.indent)+len(s.marker):])
		}
		out = append(out, r.wrapped()...)
	}
	return strings.Join(out, "\n")
}

// unload moves the comment behind a long line of code to a line of its own: below what opens a
// block, else above.
func (s *source) unload(opens func(code string) bool) string {
	var out []string
	for i, line := range s.lines {
		if s.after[i] < 0 || columns(line) <= codeColumns || i+1 < len(s.lines) && s.fixed[i+1] {
			out = append(out, line)
			continue
		}
		code, text := strings.TrimRight(line[:s.after[i]], " \t"), line[s.after[i]:]
		indent, first := indentOf(line), strings.TrimSpace(code)
		switch {
		case opens(first):
			inner := indent + "\t"
			if s.marker == "--" {
				inner = indent + "  "
			}
			out = append(out, code, inner+text)
		case strings.HasPrefix(text, s.marker+"nolint"), strings.ContainsAny(first[:1], "})"),
			strings.HasPrefix(first, "end"):
			out = append(out, line) // there it would belong to something else
		default:
			out = append(out, indent+text, code)
		}
	}
	return strings.Join(out, "\n")
}
