package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestMain has all tests look from the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// eachFile calls do with the path and text of each file of the repository whose name ends so.
func eachFile(t *testing.T, end string, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, end) {
			return err
		}
		text, err := os.ReadFile(path)
		do(path, string(text))
		return err
	})
	limittest.Must(t, err)
}

// namedTests are the tests that a text names: whole, or only how they begin, with an ellipsis.
var namedTests = regexp.MustCompile("`((?:Test|Fuzz)[A-Z0-9]\\w+)(…?)`")

// Pages that the code names are there: errors and comments send people to them.
func TestPagesThatTheCodeNamesExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[\w./-]+\.md\b`)
	eachFile(t, ".go", func(path, text string) {
		for _, page := range named.FindAllString(text, -1) {
			if _, err := os.Stat(page); err != nil && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s names %s", path, page)
			}
		}
	})
}

// documents are the pages below docs, by their paths there.
func documents(t *testing.T) (names []string) {
	t.Helper()
	eachFile(t, ".md", func(path, _ string) {
		if name, ok := strings.CutPrefix(filepath.ToSlash(path), "docs/"); ok {
			names = append(names, name)
		}
	})
	if len(names) < 20 {
		t.Fatalf("%d pages", len(names))
	}
	return names
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", name))
	limittest.Must(t, err)
	return string(text)
}

func TestEveryPromiseNamesItsTests(t *testing.T) {
	sections := strings.Split(document(t, "reference/promises.md"), "\n## ")[1:]
	for i, section := range sections {
		_, tests, _ := strings.Cut(section, "\n**Tests**\n")
		if !strings.HasPrefix(section, fmt.Sprintf("P%d ", i+1)) || !namedTests.MatchString(tests) {
			t.Errorf("section %d is not P%d, or has no test", i+1, i+1)
		}
	}
	if len(sections) != 8 {
		t.Errorf("%d promises", len(sections))
	}
}

func TestTestsThatTheDocumentsNameExist(t *testing.T) {
	var names []string // of all tests, those of nested modules too
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	eachFile(t, "_test.go", func(_, text string) {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	})
	for _, file := range documents(t) {
		for _, m := range namedTests.FindAllStringSubmatch(document(t, file), -1) {
			exists := slices.ContainsFunc(names, func(name string) bool {
				return name == m[1] || m[2] != "" && strings.HasPrefix(name, m[1])
			})
			if !exists {
				t.Errorf("%s names %s%s, which does not exist", file, m[1], m[2])
			}
		}
	}
}

// A word of the glossary is explained in at most 25 words, and in a file that exists.
func TestTheGlossaryIsShort(t *testing.T) {
	var files []string
	eachFile(t, "", func(path, _ string) { files = append(files, "/"+filepath.ToSlash(path)) })
	words := regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([^|]+) \\| `([^`|]+)` \\|$").
		FindAllStringSubmatch(document(t, "design/glossary.md"), -1)
	if len(words) < 50 || len(words) > 64 { // 50 of the code, and those of the API
		t.Fatalf("%d words", len(words))
	}
	for _, m := range words {
		if n := len(strings.Fields(m[2])); n > 25 {
			t.Errorf("%s is explained in %d words", m[1], n)
		}
		if !slices.ContainsFunc(files, func(file string) bool { return strings.HasSuffix(file, "/"+m[3]) }) {
			t.Errorf("%s: no file %s", m[1], m[3])
		}
	}
}

// A record of a decision says what was decided, why, what it costs and which test guards it, in at
// most 80 words.
func TestDecisionsAreShortRecords(t *testing.T) {
	var records []string
	for _, page := range documents(t) {
		if strings.HasPrefix(page, "design/decisions/") && page != "design/decisions/README.md" {
			records = append(records, strings.Split(document(t, page), "\n## ")[1:]...)
		}
	}
	if len(records) < 50 {
		t.Fatalf("%d records", len(records))
	}
	for _, record := range records {
		title, body, _ := strings.Cut(record, "\n")
		rest := body
		for _, field := range []string{"- **Decision:** ", "- **Why:** ", "- **Cost:** ", "- **Test:** "} {
			_, after, found := strings.Cut(rest, "\n"+field)
			if !found {
				t.Errorf("%s: no %s", title, field)
			}
			rest = after
		}
		if !namedTests.MatchString(rest) {
			t.Errorf("%s: no test", title)
		}
		if n := len(strings.Fields(body)); n > 80 {
			t.Errorf("%s: %d words", title, n)
		}
	}
}

// Every package of the repository says what it is for.
func TestEveryPackageHasAComment(t *testing.T) {
	comments := map[string]bool{}
	comment := regexp.MustCompile(`(?m)^//.*\npackage \w`)
	eachFile(t, ".go", func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
			comments[filepath.Dir(path)] = comments[filepath.Dir(path)] || comment.MatchString(text)
		}
	})
	for dir, has := range comments {
		if !has {
			t.Errorf("no comment of the package in %s", dir)
		}
	}
}

// Each question of a contributor is answered by one file, which has what the table says.
func TestFilesThatAnswerQuestionsDoSo(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| [^|]+\\? \\| `([^`|]+)` \\| ([^|]+) \\|$").
		FindAllStringSubmatch(document(t, "../CONTRIBUTING.md"), -1)
	if len(rows) < 10 {
		t.Fatalf("%d questions", len(rows))
	}
	for _, row := range rows {
		path := row[1]
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1)
		if len(names) == 0 {
			t.Errorf("%s: nothing to look for", path)
		}
		for _, name := range names {
			of := regexp.QuoteMeta(name[1])
			if filepath.Ext(path) == ".go" { // which has to declare it
				of = `(?m)^(func (\(.*?\) )?|type |var |const )` + of + `\b`
			}
			if !regexp.MustCompile(of).MatchString(document(t, "../"+path)) {
				t.Errorf("%s has no %s", path, name[1])
			}
		}
	}
}

// The table of packages names each file of the root once and no other, and folders with Go, each
// once.
func TestTheTableOfPackagesIsTrue(t *testing.T) {
	page := document(t, "design/packages.md")
	files, err := filepath.Glob("*.go")
	limittest.Must(t, err)
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	rows := strings.Join(regexp.MustCompile("(?m)^\\| `\\w+\\.go`.*").FindAllString(page, -1), "\n")
	named := regexp.MustCompile("`\\w+\\.go`").FindAllString(rows, -1)
	slices.Sort(named)
	if got := strings.ReplaceAll(strings.Join(named, " "), "`", ""); got != strings.Join(files, " ") {
		t.Errorf("the root has %v, the table names %s", files, got)
	}
	folders := regexp.MustCompile("(?m)^\\| `([a-z/]+)/` \\| [^|]+ \\|$").FindAllStringSubmatch(page, -1)
	if len(folders) < 30 {
		t.Fatalf("%d packages", len(folders))
	}
	seen := map[string]bool{}
	for _, folder := range folders {
		if files, err := filepath.Glob(folder[1] + "/*.go"); err != nil || len(files) == 0 || seen[folder[1]] {
			t.Errorf("%s is no package, or there twice", folder[1])
		}
		seen[folder[1]] = true
	}
}
