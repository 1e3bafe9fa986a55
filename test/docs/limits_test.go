package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords is how long a page may be, in words without its blocks of code: pages are for readers.
// A page whose folder stands here alone has that of the folder. Records of experiments are as long
// as what was tried.
var mostWords = map[string]int{
	"README.md": 300, "getting-started.md": 800, "algorithms.md": 800, "fairness.md": 700, "failures.md": 700,
	"takeover.md": 1400, "track-record.md": 400, "performance.md": 1500,
	"howto/": 700, "howto/deploy-redis.md": 800, "howto/envoy.md": 900, "howto/batch-worker.md": 500,
	"migrate/":   500,
	"reference/": 800, "reference/semantics.md": 1800, "reference/changing-a-limit.md": 860,
	"reference/promises.md": 1680,
	"reference/glossary.md": 500, "reference/cli.md": 600, "reference/http-api.md": 500, "reference/metrics.md": 500,
	"design/architecture.md": 1800, "design/fairness.md": 2500, "design/fairness-measured.md": 1100,
	"design/failures.md": 2000, "design/glossary.md": 1800,
	"design/packages.md": 1300, "design/redisson.md": 500,
	"design/sources.md": 700,
	"design/decisions/": 3000, // each record has at most twelve lines
}

func TestPagesAreShort(t *testing.T) {
	t.Chdir("../..")
	for _, page := range documents(t) {
		folder := page[:strings.LastIndex(page, "/")+1]
		most, known := mostWords[page]
		if !known {
			most, known = mostWords[folder]
		}
		if !known {
			if folder != "experiments/" {
				t.Errorf("%s: mostWords does not say how long it may be", page)
			}
			continue
		}
		if n := words(document(t, page)); n > most {
			t.Errorf("%s has %d words, at most %d are allowed", page, n, most)
		}
	}
}

// Each page is found from the table of contents.
func TestTheTableOfContentsIsWhole(t *testing.T) {
	t.Chdir("../..")
	contents := document(t, "README.md")
	for _, page := range documents(t) {
		inner := strings.HasPrefix(page, "experiments/") || strings.HasPrefix(page, "design/decisions/")
		if page != "README.md" && (!inner || strings.HasSuffix(page, "/README.md")) &&
			!strings.Contains(contents, "("+page+")") {
			t.Errorf("docs/README.md does not list %s", page)
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

func TestTheReadmeIsShort(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 180 {
		t.Errorf("it has %d lines, at most 180 are allowed", n)
	}
}

// The rates that the README tells are put there from stored results.
func TestFiguresOfTheReadmeAreMeasured(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Performance\n")
	section, _, _ = strings.Cut(section, "\n## ")
	measured := regexp.MustCompile(`(?s)<!-- bench .*?<!-- /bench -->`)
	if n := len(measured.FindAllString(section, -1)); n < 3 {
		t.Fatalf("%d figures are measured", n)
	}
	figures := regexp.MustCompile(`\d{1,3}(?:,\d{3}){1,2}|\d+(?:\.\d+)? times`)
	for _, figure := range figures.FindAllString(measured.ReplaceAllString(section, ""), -1) {
		if !slices.Contains([]string{"1,000", "50,000"}, figure) { // callers, and keys
			t.Errorf("%s is not put there by the benchmark", figure)
		}
	}
}
