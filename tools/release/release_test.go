package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository is one with a library, a nested program that needs it, and a module of its own tests.
func repository(t *testing.T) string {
	t.Helper()
	t.Setenv("GOPROXY", "off") // what is needed is here
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./cmd/say\n\t./internal/rig\n)\n\n" +
			"replace example.org/say v0.0.0 => ./\n",
		"go.mod":          "module example.org/say\n\ngo 1.26.0\n",
		"say.go":          "// Package say says.\npackage say\n\n// Word is what is said.\nconst Word = \"hello\"\n",
		"cmd/say/go.mod":  "module example.org/say/cmd/say\n\ngo 1.26.0\n\nrequire example.org/say v0.0.0\n",
		"cmd/say/main.go": program,
		"internal/rig/go.mod": "module example.org/say/internal/rig\n\ngo 1.26.0\n\n" +
			"require example.org/say v0.0.0\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		if _, err := git(root, args...); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMain(m *testing.M) {
	code := m.Run()
	if config, err := gitConfig(); err == nil {
		_ = os.Remove(config)
	}
	os.Exit(code)
}

const program = `package main

import (
	"fmt"
	"runtime/debug"

	"example.org/say"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println(say.Word, info.Main.Version, info.Deps[0].Version)
}
`

func TestATriedReleaseInstalls(t *testing.T) {
	root := repository(t)
	var out bytes.Buffer
	bills := filepath.Join(t.TempDir(), "bills")
	if err := run(t.Context(), []string{"-root", root, "-sbom", bills, "try", "v0.3.0"}, &out); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"say.cdx.json":     "pkg:golang/example.org/say@v0.3.0?type=module",
		"cmd-say.cdx.json": "pkg:golang/example.org/say@v0.3.0",
	} {
		text, err := os.ReadFile(filepath.Join(bills, file))
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), `"CycloneDX"`) {
			t.Errorf("%s: %v, it lacks %s:\n%s", file, err, want, text)
		}
	}
	for _, want := range []string{"from the tag v0.3.0", "from the tag cmd/say/v0.3.0", "hello v0.3.0 v0.3.0",
		"a program with example.org/say"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not said: %s\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "rig") {
		t.Errorf("a module that serves the repository itself was released:\n%s", &out)
	}
	if left, err := git(root, "status", "--porcelain"); err != nil || left != "" {
		t.Errorf("%v: it changed the repository:\n%s", err, left)
	}
	if tags, err := git(root, "tag"); err != nil || tags != "" {
		t.Errorf("%v: it made tags: %s", err, tags)
	}
}

// Without what prepare writes, a module that requires its sibling at v0.0.0 cannot be had.
func TestATagWithoutPreparationDoesNotInstall(t *testing.T) {
	root := repository(t)
	for _, tag := range []string{"v0.3.0", "cmd/say/v0.3.0"} {
		if _, err := git(root, "tag", tag); err != nil {
			t.Fatal(err)
		}
	}
	err := run(t.Context(), []string{"-root", root, "-build=false", "try", "v0.3.0"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "v0.0.0") {
		t.Errorf("%v", err)
	}
}

func TestPrepareAndTags(t *testing.T) {
	root := repository(t)
	var out bytes.Buffer
	for _, args := range [][]string{{"prepare", "v1.2.3"}, {"tags", "v1.2.3"}} {
		if err := run(t.Context(), append([]string{"-root", root}, args...), &out); err != nil {
			t.Fatal(err)
		}
	}
	if want := "git tag v1.2.3\ngit tag cmd/say/v1.2.3\n"; out.String() != want {
		t.Errorf("tags are\n%swant\n%s", &out, want)
	}
	for file, want := range map[string]string{
		"go.work": "replace example.org/say v1.2.3 => ./", "cmd/say/go.mod": "require example.org/say v1.2.3",
		"internal/rig/go.mod": "require example.org/say v1.2.3",
	} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "v0.0.0") {
			t.Errorf("%v: %s is\n%s", err, file, text)
		}
	}
}

// What is unreleased becomes the release of the day that is prepared, once. Without that there are
// no tags.
func TestPrepareDatesTheChangelog(t *testing.T) {
	root := repository(t)
	file := filepath.Join(root, "CHANGELOG.md")
	write := "# Changelog\n\n## [Unreleased]\n\n- Words.\n\n[Unreleased]: https://example.org/say/commits/main\n"
	if err := os.WriteFile(file, []byte(write), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) error {
		return run(t.Context(), append([]string{"-root", root}, args...), &bytes.Buffer{})
	}
	if err := do("tags", "v1.2.3"); err == nil {
		t.Error("tags without a changelog")
	}
	for range 2 {
		if err := do("prepare", "v1.2.3"); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - " + time.Now().Format(time.DateOnly) + "\n\n- Words.\n\n" +
		"[Unreleased]: https://example.org/say/commits/main\n[1.2.3]: https://example.org/say/releases/tag/v1.2.3\n"
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if err := do("tags", "v1.2.3"); err != nil {
		t.Error(err)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"try"}, {"try", "0.1.0"}, {"try", "v0.1"}, {"mend", "v0.1.0"}, {"-x"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestWhatBreaksCallersIsInTheChangelog(t *testing.T) {
	root := repository(t)
	compare := func() (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), []string{"-root", root, "api"}, &out)
		return out.String(), err
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := compare(); err != nil || !strings.Contains(said, "no release") {
		t.Fatal(said, err)
	}
	if _, err := git(root, "tag", "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	write("CHANGELOG.md", "")
	if said, err := compare(); err != nil || !strings.Contains(said, "nothing since v0.1.0 may break callers") {
		t.Fatal(said, err)
	}
	write("say.go", "// Package say says.\npackage say\n\nconst Other = 1\n")
	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- More words.\n\n## [0.1.0]\n\n- `Word`\n")
	if said, err := compare(); err == nil || !strings.Contains(err.Error(), "Word: removed") {
		t.Fatal(said, err)
	}
	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- `Word` went.\n")
	if said, err := compare(); err != nil || !strings.Contains(said, "example.org/say since v0.1.0: Word: removed") {
		t.Fatal(said, err)
	}
}
