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
	// part is how a file says that it is put into another one, from where its links lead.
	part = regexp.MustCompile(`(?m)^<!-- part of (\S+) -->$`)
	code = regexp.MustCompile("`[^`]*`")
	// shown is a link, and what a reader sees of it.
	shown = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// deadLinks are those of Markdown files to files and headings that are not there. Links to other
// sites are not followed.
func deadLinks(root string, paths []string) (found []finding, err error) {
	known := map[string]map[string]bool{}
	for _, path := range paths {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return found, err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			name = path
		}
		from := path
		if m := part.FindSubmatch(text); m != nil {
			from = filepath.Join(root, filepath.FromSlash(string(m[1])))
		}
		for _, b := range blocks(string(text)) {
			if b.code {
				continue
			}
			joined := strings.Join(b.lines, "\n")
			for _, m := range link.FindAllStringSubmatchIndex(blank(joined), -1) {
				target := joined[m[2]:m[3]]
				if why := dead(from, target, known); why != "" {
					at := b.at + strings.Count(joined[:m[2]], "\n")
					found = append(found, finding{name, at, false, fmt.Sprintf("link to %s: %s", target, why)})
				}
			}
		}
	}
	return found, nil
}

// blank hides what stands between backticks.
func blank(text string) string {
	return code.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
}

// dead says why a link leads nowhere, or "".
func dead(from, target string, known map[string]map[string]bool) string {
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
	if known[path] == nil {
		text, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		known[path] = anchors(string(text))
	}
	if !known[path][u.Fragment] {
		return "no such heading"
	}
	return ""
}

// anchors are the names under which the headings of a Markdown file can be linked to.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, b := range blocks(text) {
		line := b.lines[0]
		if b.code || !strings.HasPrefix(line, "#") {
			continue
		}
		name := slug(strings.TrimLeft(line, "#"))
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
