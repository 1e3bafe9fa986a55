package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// shown is a link, and what a reader sees of it.
	shown = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the names under which the headings of Markdown files can be linked to, by file.
type anchors map[string]map[string]bool

// dead are the links of a Markdown file to files and headings that are not there. Links to other
// sites are not followed.
func (a anchors) dead(path, name string, lines []line) (found []finding) {
	for i, l := range lines {
		if l.kind == code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(quoted.ReplaceAllString(l.text, "x"), -1) {
			if why := a.why(path, m[1]); why != "" {
				found = append(found, finding{name, i + 1, false, fmt.Sprintf("link to %s: %s", m[1], why)})
			}
		}
	}
	return found
}

// why says why a link leads nowhere, or "".
func (a anchors) why(from, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	path := from
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(from), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(path); err != nil {
		return "no such file"
	}
	if u.Fragment == "" || filepath.Ext(path) != ".md" {
		return ""
	}
	if a[path] == nil {
		text, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		a[path] = headings(string(text))
	}
	if !a[path][u.Fragment] {
		return "no such heading"
	}
	return ""
}

// headings are the names of those of a Markdown file.
func headings(text string) map[string]bool {
	names := map[string]bool{}
	for _, l := range markdown(text) {
		if l.kind == code || !strings.HasPrefix(l.text, "#") {
			continue
		}
		name := slug(strings.TrimLeft(l.text, "#"))
		unique := name
		for n := 1; names[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		names[unique] = true
	}
	return names
}

// slug is a heading as part of an address: letters, digits, hyphens and underscores. Of a link it
// has what is shown.
func slug(heading string) string {
	heading = shown.ReplaceAllString(heading, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
