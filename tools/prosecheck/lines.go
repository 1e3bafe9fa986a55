package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"

	"github.com/golangci/misspell"
)

// A kind is what a line is.
type kind int

const (
	code  kind = iota
	prose      // of a Markdown file, or nothing but a comment
	free       // as wide as it likes: a table, what a program reads, a picture
)

// A line of a file.
type line struct {
	kind
	text string
}

// languages tell what the lines of a file are, by the ending of its name.
var languages = map[string]func(text string) []line{
	".md":  markdown,
	".go":  golang,
	".lua": func(text string) []line { return comments(text, "--", nil) },
	".sh":  func(text string) []line { return comments(text, "#", nil) },
}

// golang knows lines inside of texts, which may look like comments.
func golang(text string) []line {
	inside := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, 0)
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		for n := range strings.Count(lit, "\n") {
			if tok == token.STRING {
				inside[file.PositionFor(pos, false).Line+n] = true
			}
		}
	}
	return comments(text, "//", inside)
}

var (
	directive = regexp.MustCompile(`^(//|--@|--\S|#!)\S`)
	output    = regexp.MustCompile(`(?i)^//\s*(unordered )?output:`)
)

// comments tells comments from code. What an example shows a program reads.
func comments(text, marker string, inside map[int]bool) (lines []line) {
	shows := false
	for i, text := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(text)
		l := line{code, text}
		if strings.HasPrefix(trimmed, marker) && !inside[i] {
			l.kind = prose
		}
		shows = l.kind == prose && (shows || output.MatchString(trimmed))
		if shows || l.kind == prose && (directive.MatchString(trimmed) || len(strings.Fields(trimmed)) <= 2) {
			l.kind = free
		}
		lines = append(lines, l)
	}
	return lines
}

var (
	fence   = regexp.MustCompile("^\\s*(```+|~~~+)")
	item    = regexp.MustCompile(`^(\s*)([-*+]|\d+[.)])(\s+)(\S.*)$`)
	picture = regexp.MustCompile(`^\s*(!\[[^\]]*\]\([^)]*\)|<!--.*-->)$`)
	quoted  = regexp.MustCompile("`[^`]*`")
)

// markdown knows blocks of code: between fences, or indented behind an empty line.
func markdown(text string) (lines []line) {
	content := 0 // the column at which the text of the list item begins that we are in
	blank, indented, until := true, false, ""
	for _, text := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(text)
		indent := len(text) - len(strings.TrimLeft(text, " \t"))
		l := line{prose, text}
		opening := fence.FindStringSubmatch(text)
		switch {
		case until != "":
			l.kind = code
			if strings.HasPrefix(trimmed, until) {
				until = ""
			}
		case trimmed == "":
		case (blank || indented) && indent >= content+4:
			l.kind, indented = code, true
		case opening != nil:
			l.kind, until = code, opening[1]
		default:
			if m := item.FindStringSubmatch(text); m != nil {
				content = len(m[1] + m[2] + m[3])
			} else if blank && indent < content {
				content = 0
			}
			indented = false
			words := strings.Fields(quoted.ReplaceAllString(trimmed, "x"))
			if strings.HasPrefix(trimmed, "|") || picture.MatchString(text) || len(words) == 1 {
				l.kind = free
			}
		}
		blank = trimmed == ""
		lines = append(lines, l)
	}
	return lines
}

// tooLong are the lines that are wider than they may be.
func tooLong(path string, lines []line) (found []finding) {
	for i, l := range lines {
		n := 0
		for _, r := range l.text {
			if n++; r == '\t' {
				n += tabColumns - 1 - (n-1)%tabColumns
			}
		}
		switch {
		case l.kind == prose && n > proseColumns:
			found = append(found, finding{path, i + 1, false, fmt.Sprintf("prose of %d columns", n)})
		case l.kind == code && n > codeColumns:
			found = append(found, finding{path, i + 1, true, fmt.Sprintf("code of %d columns", n)})
		}
	}
	return found
}

var dictionary = misspell.New()

// misspelled are the words that a dictionary of mistakes has, wherever they stand.
func misspelled(path string, lines []line) (found []finding) {
	for i, l := range lines {
		_, mistakes := dictionary.Replace(l.text)
		for _, m := range mistakes {
			found = append(found, finding{path, i + 1, false, fmt.Sprintf("%s is written %s", m.Original, m.Corrected)})
		}
	}
	return found
}
