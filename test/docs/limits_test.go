package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords is how long a page may be, in words without its blocks of code: pages are for readers.
// A page whose folder stands here alone has that of the folder.
var mostWords = map[string]int{
	"README.md": 450, "getting-started.md": 550, "algorithms.md": 750, "fairness.md": 1600, "failures.md": 1700,
	"track-record.md": 750, "performance.md": 1100,
	"howto/": 700, "howto/deploy-redis.md": 900, "howto/envoy.md": 900, "howto/monitor.md": 750, "howto/recipes.md": 850,
	"migrate/":   500,
	"reference/": 600, "reference/semantics.md": 1100, "reference/families.md": 650, "reference/promises.md": 1400,
	"design/": 600, "design/architecture.md": 1300, "design/glossary.md": 1200, "design/packages.md": 1300,
	"design/takeover.md": 750,
	"design/decisions/":  1400, // each record has at most 80 words
}

func TestPagesAreShort(t *testing.T) {
	for _, page := range documents(t) {
		folder := page[:strings.LastIndex(page, "/")+1]
		most, known := mostWords[page]
		if !known {
			most, known = mostWords[folder]
		}
		if !known {
			t.Errorf("%s: mostWords does not say how long it may be", page)
			continue
		}
		if n := words(document(t, page)); n > most {
			t.Errorf("%s has %d words, at most %d are allowed", page, n, most)
		}
	}
}

// All Markdown of the repository together has at most 40,000 words, its code with it, what a
// contributor reads 1,000, and the README 900 in 150 lines.
func TestAllPagesAreShort(t *testing.T) {
	total, most := 0, map[string]int{"CONTRIBUTING.md": 1000, "README.md": 900}
	eachFile(t, ".md", func(path, text string) {
		n := len(strings.Fields(text))
		if total += n; most[path] > 0 && n > most[path] {
			t.Errorf("%s has %d words, at most %d are allowed", path, n, most[path])
		}
	})
	if total > 40_000 || total < 10_000 {
		t.Errorf("%d words", total)
	}
	if n := strings.Count(document(t, "../README.md"), "\n"); n > 150 {
		t.Errorf("the README has %d lines, at most 150 are allowed", n)
	}
}

// Markdown that looks right in an editor and is shown otherwise: a blank line ends a table, so that
// what follows is text; a comment that begins a line ends the paragraph above it, so that a figure
// would stand by itself.
func TestPagesAreShownAsTheyAreMeant(t *testing.T) {
	for what, wrong := range map[string]*regexp.Regexp{
		"a table ends before":      regexp.MustCompile(`(?m)^\|.*\|\n\n(\|.*\|)\n(?:[^|]|\|[^-\n])`),
		"a word must stand before": regexp.MustCompile(`(?m)^[^|\n].*\n {0,3}(<!-- bench .*-->.*)$`),
	} {
		for _, page := range append(documents(t), "../README.md") {
			for _, found := range wrong.FindAllStringSubmatch(document(t, page)+"\n", -1) {
				t.Errorf("%s: %s %s", page, what, found[1])
			}
		}
	}
}

// Each page is found from the table of contents, decisions from an index of their own.
func TestTheTableOfContentsIsWhole(t *testing.T) {
	contents, index := document(t, "README.md"), document(t, "design/decisions/README.md")
	for _, page := range documents(t) {
		listed := strings.Contains(contents, "("+page+")") || strings.Contains(contents, "("+page+"#")
		if name, decisions := strings.CutPrefix(page, "design/decisions/"); decisions && name != "README.md" {
			listed = strings.Contains(index, "("+name+")")
		}
		if !listed && page != "README.md" {
			t.Errorf("no table of contents lists %s", page)
		}
	}
}

// words counts those of a page, without its blocks of code and what a program puts there.
func words(text string) int {
	for _, left := range []string{"(?ms)^```.*?^```$", "(?s)<!-- bench .*?<!-- /bench -->", "(?s)<!--.*?-->"} {
		text = regexp.MustCompile(left).ReplaceAllString(text, "")
	}
	return len(strings.Fields(text))
}

// The rates that the README tells are put there from stored results.
func TestFiguresOfTheReadmeAreMeasured(t *testing.T) {
	_, section, _ := strings.Cut(document(t, "../README.md"), "\n## Performance\n")
	section, _, _ = strings.Cut(section, "\n## ")
	measured := regexp.MustCompile(`(?s)<!-- bench .*?<!-- /bench -->`)
	if n := len(measured.FindAllString(section, -1)); n < 3 {
		t.Fatalf("%d figures are measured", n)
	}
	figures := regexp.MustCompile(`\d{1,3}(?:,\d{3}){1,2}|\d+(?:\.\d+)? times`)
	for _, figure := range figures.FindAllString(measured.ReplaceAllString(section, ""), -1) {
		if !slices.Contains([]string{"1,000", "1,024"}, figure) { // callers
			t.Errorf("%s is not put there by the benchmark", figure)
		}
	}
}
