package limittest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// BreakVariable tells a worker whose source is changed which change is in force.
const BreakVariable = "SHARDLIMIT_TEST_BREAK"

// SwitchOff is a rule that can be switched off by edits of the source.
type SwitchOff struct {
	Name  string
	Edits []Edit
}

// Edit is a text that stands exactly once in the source, and another in its place. In the other,
// BROKEN tells whether the change is wanted.
type Edit [2]string

var packageLine = regexp.MustCompile(`(?m)^package \w+$`)

// BuildChanged builds the tests of the package that runs once more, with all changes in the source,
// each in force only for a worker that is told so, and with files added, or others in their place:
// their texts by their paths.
func BuildChanged(t *testing.T, changes []SwitchOff, added map[string]string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	files := 0
	put := func(text string) string {
		files++
		name := filepath.Join(dir, fmt.Sprint(files, ".txt"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	replace := map[string]string{}
	for path, text := range changedSources(t, changes) {
		replace[path] = put(text)
		name := packageLine.FindString(text)
		variable := filepath.Join(filepath.Dir(path), "broken.go")
		replace[variable] = put(fmt.Sprintf("%s\n\nimport \"os\"\n\nvar broken = os.Getenv(%q)\n", name, BreakVariable))
	}
	for path, text := range added {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root(t), path)
		}
		replace[path] = put(text)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "broken.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay",
		put(string(text)), "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the changed source does not build: %v\n%s", err, out)
	}
	return binary
}

// changedSources returns the files of the module that changes are in, with all of them.
func changedSources(t *testing.T, changes []SwitchOff) map[string]string {
	t.Helper()
	sources, changed := map[string]string{}, map[string]string{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root(t) && strings.Contains(" .git bench cmd docs tools testdata ", " "+d.Name()+" ") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			sources[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		for _, e := range c.Edits {
			var at []string
			for path, text := range sources {
				for range strings.Count(text, e[0]) {
					at = append(at, path)
				}
			}
			if len(at) != 1 {
				t.Fatalf("%d places of the source hold what %q changes: %s", len(at), c.Name, e[0])
			}
			instead := strings.ReplaceAll(e[1], "BROKEN", fmt.Sprintf("(broken == %q)", c.Name))
			sources[at[0]] = strings.Replace(sources[at[0]], e[0], instead, 1)
			changed[at[0]] = sources[at[0]]
		}
	}
	return changed
}

// root is the directory of the module, which is some levels above that of a package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the tests do not run within their module")
		}
		dir = filepath.Dir(dir)
	}
}
