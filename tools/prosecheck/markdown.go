package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	fence     = regexp.MustCompile("^\\s*(```+|~~~+)")
	item      = regexp.MustCompile(`^(\s*)([-*+]|\d+[.)])(\s+)(\S.*)$`)
	quote     = regexp.MustCompile(`^\s*> ?`)
	ruler     = regexp.MustCompile(`^\s*([-*_=]\s*){3,}$`)
	verbatim  = regexp.MustCompile(`^\s*(\||#{1,6} |<|\[[^\]]+\]: )`)
	picture   = regexp.MustCompile(`^\s*(!\[[^\]]*\]\([^)]*\)|<!--.*-->)$`)
	hardBreak = regexp.MustCompile(`(\\|  )$`)
)

// A block is some lines of Markdown that are wrapped together, or not at all.
type block struct {
	at          int // the first line, from 1
	lines       []string
	code        bool   // inside a fence, or indented
	text        string // what a paragraph says; "" if it stays as it is
	first, rest string // what its lines begin with
}

// blocks splits a Markdown file.
func blocks(text string) (list []block) {
	lines := strings.Split(text, "\n")
	content := 0 // the column at which the text of the list item begins that we are in
	blank := true
	indented := false // the line before belongs to an indented block of code
	for i := 0; i < len(lines); {
		line := lines[i]
		indent := len(indentOf(line))
		b := block{at: i + 1, lines: lines[i : i+1]}
		if strings.TrimSpace(line) != "" && indent < content && item.FindString(line) == "" && blank {
			content = 0
		}
		switch {
		case fence.MatchString(line):
			b.lines, b.code = lines[i:fenceEnd(lines, i)], true
		case strings.TrimSpace(line) == "":
		case (blank || indented) && indent >= content+4:
			b.code = true
		case ruler.MatchString(line), verbatim.MatchString(line), quote.MatchString(line):
		default:
			b, content = paragraph(lines, i)
		}
		blank = strings.TrimSpace(line) == ""
		if !blank {
			indented = b.code && !fence.MatchString(line)
		}
		list = append(list, b)
		i += len(b.lines)
	}
	return list
}

// fenceEnd is the line after the one that closes the fence which begins at i.
func fenceEnd(lines []string, i int) int {
	mark := fence.FindStringSubmatch(lines[i])[1]
	for j := i + 1; j < len(lines); j++ {
		if strings.HasPrefix(strings.TrimSpace(lines[j]), mark) {
			return j + 1
		}
	}
	return len(lines)
}

// paragraph is the one that begins at line i, and the column of its text.
func paragraph(lines []string, i int) (block, int) {
	b := block{at: i + 1, first: indentOf(lines[i]), rest: indentOf(lines[i])}
	text := strings.TrimSpace(lines[i])
	if m := item.FindStringSubmatch(lines[i]); m != nil {
		b.first = m[1] + m[2] + m[3]
		b.rest, text = strings.Repeat(" ", len(b.first)), m[4]
	}
	end := i + 1
	for end < len(lines) && !hardBreak.MatchString(lines[end-1]) && continues(lines[end]) {
		text += " " + strings.TrimSpace(lines[end])
		end++
	}
	b.lines = lines[i:end]
	if !hardBreak.MatchString(lines[end-1]) {
		b.text = text
	}
	return b, len(b.rest)
}

// continues tells whether a line goes on with the paragraph before it.
func continues(line string) bool {
	return strings.TrimSpace(line) != "" && !item.MatchString(line) && !fence.MatchString(line) &&
		!verbatim.MatchString(line) && !quote.MatchString(line) && !ruler.MatchString(line)
}

func fixMarkdown(text []byte) []byte {
	var out []string
	for _, b := range blocks(string(text)) {
		if b.text != "" && tooLong(b.lines, proseColumns) {
			b.lines = fill(b.text, b.first, b.rest, proseColumns)
		}
		out = append(out, b.lines...)
	}
	return []byte(strings.Join(out, "\n"))
}

func longMarkdown(path string, text []byte) (found []finding) {
	for _, b := range blocks(string(text)) {
		for i, line := range b.lines {
			n := columns(line)
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "|"):
			case b.code && n > codeColumns:
				found = append(found, finding{path, b.at + i, true, fmt.Sprintf("code of %d columns", n)})
			case !b.code && n > proseColumns && len(words(line)) > 1 && !picture.MatchString(line):
				found = append(found, finding{path, b.at + i, false, fmt.Sprintf("prose of %d columns", n)})
			}
		}
	}
	return found
}
