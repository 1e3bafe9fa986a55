package docs

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// typedErrors are the texts of errors that are types.
var typedErrors = map[string]error{
	"*TooFarAheadError": &shardlimit.TooFarAheadError{},
	"*ShardError":       &shardlimit.ShardError{Limiter: "l", Shard: "s", Node: "n", Err: errors.New("why")},
	"*ConfigError":      &shardlimit.ConfigError{Node: "n", Err: errors.New("why"), Remedy: "what to do"},
}

// The page of errors has every error that the packages for users have, with the text that it makes.
func TestThePageOfErrorsIsWhole(t *testing.T) {
	exported, texts := exportedErrors(t)
	for name, err := range typedErrors {
		texts[name] = err.Error()
	}
	var shown []string
	quoted := regexp.MustCompile("`([^`]+)`")
	for row := range strings.Lines(document(t, "reference/errors.md")) {
		cells := strings.Split(row, " | ")
		if len(cells) != 4 || !strings.HasPrefix(row, "| `") {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[0], -1) {
			shown = append(shown, name[1])
			of := texts[name[1]]
			begins := func(text []string) bool { return strings.HasPrefix(of, text[1]) }
			if of == "" && !strings.Contains(name[1], "*") {
				t.Errorf("the text of %s was not found", name[1])
			} else if of != "" && !slices.ContainsFunc(quoted.FindAllStringSubmatch(cells[1], -1), begins) {
				t.Errorf("%s says %q, the page shows %s", name[1], of, cells[1])
			}
		}
	}
	slices.Sort(shown)
	if want := slices.Sorted(maps.Keys(exported)); !slices.Equal(shown, want) {
		t.Errorf("the page has the errors\n%v, exported are\n%v", shown, want)
	}
}

// importedAs are the packages in which errors are made: how users write what is theirs. Errors of
// the root are made in packages inside.
var importedAs = map[string]string{
	".": "", "httplimit": "httplimit.", "grpclimit": "grpclimit.", "envoylimit": "envoylimit.",
	"envoylimit/rules": "rules.", "ratelike": "ratelike.", "embedded": "embedded.",
	"internal/limit": "", "internal/register": "", "internal/dispatch": "",
}

// declaredError is a variable, with how its text begins if that is a constant; errorType is a type.
var (
	declaredError = regexp.MustCompile(`(?m)^(?:var |\t)(Err\w+)(?: error)? += (?:[\w.]+\("([^"]*)")?`)
	errorType     = regexp.MustCompile(`(?m)^func \(\w+ (\*?)([A-Z]\w*)\) Error\(\) string`)
)

// exportedErrors are the names of errors of the packages that users import, and the texts of those
// that are made from a constant.
func exportedErrors(t *testing.T) (names map[string]bool, texts map[string]string) {
	t.Helper()
	names, texts = map[string]bool{}, map[string]string{}
	eachFile(t, ".go", func(path, source string) {
		of, ours := importedAs[filepath.Dir(path)]
		if !ours || strings.HasSuffix(path, "_test.go") {
			return
		}
		exported := !strings.HasPrefix(path, "internal/")
		for _, m := range declaredError.FindAllStringSubmatch(source, -1) {
			names[of+m[1]] = names[of+m[1]] || exported
			texts[of+m[1]] = cmp.Or(texts[of+m[1]], m[2])
		}
		for _, m := range errorType.FindAllStringSubmatch(source, -1) {
			names[m[1]+of+m[2]] = names[m[1]+of+m[2]] || exported
		}
	})
	maps.DeleteFunc(names, func(_ string, exported bool) bool { return !exported })
	return names, texts
}
