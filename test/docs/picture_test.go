package docs

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The picture of packages shows what runs in a user's process, as the go command lists it. An arrow
// that follows from two others is left out.
func TestThePictureOfPackagesIsTrue(t *testing.T) {
	const module = "github.com/shardlimit/shardlimit"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{.ImportPath}} {{join .Imports " "}}`, module).Output()
	limittest.Must(t, err)
	name := func(path string) string {
		of := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		return cmp.Or(strings.TrimPrefix(of, "internal/"), "shardlimit")
	}
	knows := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if !strings.HasPrefix(words[0], module) || name(words[0]) == "inside" { // that is for tests
			continue
		}
		of := map[string]bool{}
		for _, imported := range words[1:] {
			if strings.HasPrefix(imported, module) && name(imported) != "inside" {
				of[name(imported)] = true
			}
		}
		knows[name(words[0])] = of
	}
	var follows func(from, to string) bool // by more than one arrow
	follows = func(from, to string) bool {
		for by := range knows[from] {
			if by != to && (knows[by][to] || follows(by, to)) {
				return true
			}
		}
		return false
	}
	picture := "```mermaid\nflowchart TD\n"
	for _, from := range slices.Sorted(maps.Keys(knows)) {
		var to []string
		for _, of := range slices.Sorted(maps.Keys(knows[from])) {
			if !follows(from, of) {
				to = append(to, of)
			}
		}
		if len(to) > 0 {
			picture += fmt.Sprintf("  %s --> %s\n", from, strings.Join(to, " & "))
		}
	}
	picture += "```\n"
	if !strings.Contains(document(t, "design/packages.md"), picture) {
		t.Errorf("docs/design/packages.md does not show this picture:\n%s", picture)
	}
}
