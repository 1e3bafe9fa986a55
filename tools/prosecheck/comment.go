package main

import (
	"regexp"
	"strings"
)

var (
	// listed is an item of a list in a comment; labelled is a word, a gap, and what is said of it.
	listed    = regexp.MustCompile(`^(\s*)([-*+]|\d+[.)])(\s+)(\S.*)$`)
	labelled  = regexp.MustCompile(`^(\s*\S+(?: \S+)*?)(\s{2,})(\S.*)$`)
	direction = regexp.MustCompile(`^([a-z0-9]+:\S|@|nolint|line |export |extern |!|\S)|^ \+build`)
	gapped    = regexp.MustCompile(`\s{2,}`)
	heading   = regexp.MustCompile(`^ # `)
	shows     = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)
)

// unbroken stands for a space at which no line may end.
const unbroken = "\x01"

// A remark is a run of lines that hold nothing but a comment, at one indentation.
type remark struct {
	indent, marker string
	lines          []string // what stands behind the marker
}

func (r remark) write(text string) string {
	return strings.TrimRight(r.indent+r.marker+text, " \t")
}

// wrapped is the comment with paragraphs of short lines. What a program reads stays as it is:
// directives, and what an example shows.
func (r remark) wrapped() (out []string) {
	for _, text := range r.lines {
		if shows.MatchString(text) {
			return r.all(r.lines)
		}
	}
	for i := 0; i < len(r.lines); {
		end, first, rest, text := r.piece(i)
		lines := r.all(r.lines[i:end])
		if text != "" && tooLong(lines, proseColumns) {
			lines = fill(text, r.indent+r.marker+first, r.indent+r.marker+rest, proseColumns)
		}
		out = append(out, lines...)
		i = end
	}
	return out
}

func (r remark) all(texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, r.write(text))
	}
	return out
}

// piece is what belongs together from line i on: a paragraph, an item, what is said of a label, or
// one line that stays as it is, whose text is then "".
func (r remark) piece(i int) (end int, first, rest, text string) {
	line := r.lines[i]
	switch {
	case strings.TrimSpace(line) == "", r.directive(line), heading.MatchString(line), banner(line):
		return i + 1, "", "", ""
	case listed.MatchString(line):
		m := listed.FindStringSubmatch(line)
		first, text = m[1]+m[2]+m[3], m[4]
		rest = strings.Repeat(" ", len(first))
		if m[1] == " " && i+1 < len(r.lines) && indentOf(r.lines[i+1]) == " " {
			rest = " " // an item whose lines are not indented
		}
	case len(gapped.FindAllString(strings.TrimSpace(line), -1)) > 1:
		return r.row(i)
	case strings.HasPrefix(line, "\t") && (!labelled.MatchString(line) || strings.ContainsAny(line, "{}=/")):
		return i + 1, "", "", "" // code
	case labelled.MatchString(line):
		m := labelled.FindStringSubmatch(line)
		first, text = m[1]+m[2], m[3]
		rest = indentOf(first) + strings.Repeat(" ", len([]rune(first))-len(indentOf(first)))
		return i + 1, first, rest, text // what follows may be another
	default:
		first, text = indentOf(line), strings.TrimSpace(line)
		rest = first
	}
	end = i + 1
	for end < len(r.lines) && r.continues(r.lines[end], rest) {
		text += " " + strings.TrimSpace(r.lines[end])
		end++
	}
	return end, first, rest, text
}

// row is a line of columns, which are parted by gaps: lines end there only.
func (r remark) row(i int) (end int, first, rest, text string) {
	line := r.lines[i]
	first = indentOf(line)
	columns := gapped.Split(strings.TrimSpace(line), -1)
	if rest = first; len(first) < 5 && len(columns[0]) < 20 { // it begins with a label
		rest = first + strings.Repeat(" ", len(columns[0])+2)
		first, columns = first+columns[0]+"  ", columns[1:]
	}
	for j, column := range columns {
		columns[j] = strings.ReplaceAll(column, " ", unbroken)
	}
	return i + 1, first, rest, strings.Join(columns, unbroken+" ")
}

// continues tells whether a line goes on with the piece whose lines have that indentation.
func (r remark) continues(line, indent string) bool {
	return strings.TrimSpace(line) != "" && indentOf(line) == indent && !listed.MatchString(line) &&
		!labelled.MatchString(line) && !r.directive(line) && !heading.MatchString(line) && !banner(line)
}

// directive tells whether a program reads the line: nothing stands between marker and text, or the
// line has one of the forms that our own programs know.
func (r remark) directive(line string) bool {
	return direction.MatchString(line) || r.marker == "--" && strings.HasPrefix(line, " include ")
}

// banner is a line that is drawn.
func banner(line string) bool {
	return strings.Contains(line, "----") || strings.Contains(line, "====")
}
