package main

import (
	"regexp"
	"strings"
)

// unbrokenCode is the longest `code` that is kept on one line.
const unbrokenCode = 60

// neverFirst are words that would mean something else at the beginning of a line.
var neverFirst = regexp.MustCompile("^([-+*#>|=:]|\\d+[.)]|```|<|include)")

// words splits text where a line may end. What stands between backticks is one word, unless it is
// long, and so is a word with one that must not begin a line.
func words(text string) (list []string) {
	for _, w := range strings.Fields(text) {
		if n := len(list) - 1; n >= 0 && (open(list[n], w, text) || neverFirst.MatchString(w)) {
			list[n] += " " + w
			continue
		}
		list = append(list, w)
	}
	return list
}

// open tells whether the word before next ends inside of backticks that are closed again soon.
func open(word, next, text string) bool {
	if strings.Count(word, "`")%2 == 0 || strings.Count(text, "`")%2 != 0 {
		return false
	}
	code := word[strings.LastIndexByte(word, '`'):]
	return len([]rune(code))+1+len([]rune(next)) <= unbrokenCode
}

// fill writes the words in lines of at most max columns. The first line begins with one prefix, the
// others with another.
func fill(text, first, rest string, most int) (lines []string) {
	line, prefix := "", first
	for _, w := range words(text) {
		switch {
		case line == "":
			line = w
		case columns(prefix+line+" "+w) <= most:
			line += " " + w
		default:
			lines = append(lines, prefix+line)
			line, prefix = w, rest
		}
	}
	lines = append(lines, prefix+line)
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.ReplaceAll(line, unbroken, " "), " ")
	}
	return lines
}

// tooLong tells whether one of the lines could be shorter.
func tooLong(lines []string, most int) bool {
	for _, line := range lines {
		if columns(line) > most {
			return true
		}
	}
	return false
}
