package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// repository is a folder in which the tool works.
type repository struct {
	*testing.T
	root string
}

// newRepository is one with a library, a nested program that needs it, and a module of its own
// tests.
func newRepository(t *testing.T) repository {
	t.Helper()
	t.Setenv("GOPROXY", "off") // what is needed is here
	r, files := repository{t, t.TempDir()}, fstest.MapFS{}
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
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if err := os.CopyFS(r.root, files); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "first")
	return r
}

func (r repository) git(args ...string) string {
	r.Helper()
	said, err := git(r.root, args...)
	if err != nil {
		r.Fatal(err)
	}
	return said
}

// do runs the tool.
func (r repository) do(args ...string) (said string, err error) {
	var out bytes.Buffer
	err = run(r.Context(), append([]string{"-root", r.root}, args...), &out)
	return out.String(), err
}

// must is do for what succeeds.
func (r repository) must(args ...string) (said string) {
	r.Helper()
	said, err := r.do(args...)
	if err != nil {
		r.Fatal(err, said)
	}
	return said
}

func (r repository) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.root, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
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
	r, bills := newRepository(t), filepath.Join(t.TempDir(), "bills")
	said := r.must("-sbom", bills, "try", "v0.3.0")
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
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
	if strings.Contains(said, "rig") {
		t.Errorf("a module that serves the repository itself was released:\n%s", said)
	}
	if left, tags := r.git("status", "--porcelain"), r.git("tag"); left != "" || tags != "" {
		t.Errorf("it changed the repository:\n%s\nor made tags: %s", left, tags)
	}
}

// Without what prepare writes, a module that requires its sibling at v0.0.0 cannot be had.
func TestATagWithoutPreparationDoesNotInstall(t *testing.T) {
	r := newRepository(t)
	r.git("tag", "v0.3.0")
	r.git("tag", "cmd/say/v0.3.0")
	_, err := r.do("-build=false", "try", "v0.3.0")
	if err == nil || !strings.Contains(err.Error(), "v0.0.0") {
		t.Errorf("%v", err)
	}
}

// What is unreleased becomes the release of the day that is prepared, once. Without that there are
// no tags, unless there is no changelog.
func TestPrepareAndTags(t *testing.T) {
	r := newRepository(t)
	tags := r.must("tags", "v1.2.3")
	r.write("CHANGELOG.md",
		"# Changelog\n\n## [Unreleased]\n\n- Words.\n\n[Unreleased]: https://example.org/say/commits/main\n")
	if _, err := r.do("tags", "v1.2.3"); err == nil {
		t.Error("tags without a changelog")
	}
	said := r.must("prepare", "v1.2.3") + r.must("prepare", "v1.2.3") + r.must("tags", "v1.2.3")
	if want := "git tag v1.2.3\ngit tag cmd/say/v1.2.3\n"; tags != want || said != want {
		t.Errorf("tags are\n%sand\n%swant\n%s", tags, said, want)
	}
	for file, want := range map[string]string{
		"go.work": "replace example.org/say v1.2.3 => ./", "cmd/say/go.mod": "require example.org/say v1.2.3",
		"internal/rig/go.mod": "require example.org/say v1.2.3",
		"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - " + time.Now().Format(time.DateOnly) +
			"\n\n- Words.\n\n[Unreleased]: https://example.org/say/commits/main\n" +
			"[1.2.3]: https://example.org/say/releases/tag/v1.2.3\n",
	} {
		text, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "v0.0.0") {
			t.Errorf("%v: %s is\n%s\nwant\n%s", err, file, text, want)
		}
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
	r := newRepository(t)
	if said := r.must("api"); !strings.Contains(said, "no release") {
		t.Fatal(said)
	}
	r.git("tag", "v0.1.0")
	r.write("CHANGELOG.md", "")
	if said := r.must("api"); !strings.Contains(said, "nothing since v0.1.0 may break callers") {
		t.Fatal(said)
	}
	r.write("say.go", "// Package say says.\npackage say\n\nconst Other = 1\n")
	r.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- More words.\n\n## [0.1.0]\n\n- `Word`\n")
	if said, err := r.do("api"); err == nil || !strings.Contains(err.Error(), "Word: removed") {
		t.Fatal(said, err)
	}
	r.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- `Word` went.\n")
	if said := r.must("api"); !strings.Contains(said, "example.org/say since v0.1.0: Word: removed") {
		t.Fatal(said)
	}
}
