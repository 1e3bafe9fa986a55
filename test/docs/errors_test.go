package docs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// shownErrors are the errors of the root whose texts the code makes here; those of other packages
// are read in their source.
var shownErrors = map[string]error{
	"ErrInvalidConfig": shardlimit.ErrInvalidConfig, "ErrInvalidName": shardlimit.ErrInvalidName,
	"ErrInvalidLimit": shardlimit.ErrInvalidLimit, "ErrInvalidPermits": shardlimit.ErrInvalidPermits,
	"ErrExceedsLimit": shardlimit.ErrExceedsLimit, "ErrUnavailable": shardlimit.ErrUnavailable,
	"ErrOverloaded": shardlimit.ErrOverloaded, "ErrWaitTooLong": shardlimit.ErrWaitTooLong,
	"ErrTooFarAhead": shardlimit.ErrTooFarAhead, "ErrLimitClosed": shardlimit.ErrLimitClosed,
	"ErrSettled": shardlimit.ErrSettled, "ErrInvalidDecision": shardlimit.ErrInvalidDecision,
	"ErrNotFound": shardlimit.ErrNotFound, "ErrClosed": shardlimit.ErrClosed,
	"ErrOtherLimiter": shardlimit.ErrOtherLimiter, "ErrFamilyLimit": shardlimit.ErrFamilyLimit,
	"*TooFarAheadError": &shardlimit.TooFarAheadError{},
	"*ShardError":       &shardlimit.ShardError{Limiter: "l", Shard: "s", Node: "n", Err: errors.New("why")},
	"*ConfigError":      &shardlimit.ConfigError{Node: "n", Err: errors.New("why"), Remedy: "what to do"},
}

// The page of errors has every error that the packages for users have, with the text that it makes.
func TestThePageOfErrorsIsWhole(t *testing.T) {
	exported, texts := exportedErrors(t)
	for name, err := range shownErrors {
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
			of, known := texts[name[1]]
			begins := func(text []string) bool { return strings.HasPrefix(of, text[1]) }
			if known && !slices.ContainsFunc(quoted.FindAllStringSubmatch(cells[1], -1), begins) {
				t.Errorf("%s says %q, the page shows %s", name[1], of, cells[1])
			}
		}
	}
	slices.Sort(shown)
	if want := slices.Sorted(maps.Keys(exported)); !slices.Equal(shown, want) {
		t.Errorf("the page has the errors\n%v, exported are\n%v", shown, want)
	}
}

// exportedErrors are the names of errors of the packages that users import, and the texts of those
// that are made from a constant.
func exportedErrors(t *testing.T) (names map[string]bool, texts map[string]string) {
	t.Helper()
	names, texts = map[string]bool{}, map[string]string{}
	for _, dir := range []string{".", "httplimit", "grpclimit", "envoylimit", "envoylimit/rules", "ratelike",
		"embedded"} {
		of := ""
		if dir != "." {
			of = filepath.Base(dir) + "."
		}
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				name, text := errorOf(n, of)
				if names[name] = true; text != "" {
					texts[name] = text
				}
				return true
			})
		}
	}
	delete(names, "")
	return names, texts
}

// errorOf returns the error that a node declares, if it does, and its text if that is a constant.
func errorOf(n ast.Node, of string) (name, text string) {
	switch n := n.(type) {
	case *ast.FuncDecl: // of a type of errors
		if n.Name.Name == "Error" && n.Recv != nil {
			receiver, star := n.Recv.List[0].Type, ""
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver, star = pointer.X, "*"
			}
			if is, ok := receiver.(*ast.Ident); ok && is.IsExported() {
				return star + of + is.Name, ""
			}
		}
	case *ast.ValueSpec:
		if strings.HasPrefix(n.Names[0].Name, "Err") {
			if call, ok := n.Values[0].(*ast.CallExpr); ok {
				if literal, ok := call.Args[0].(*ast.BasicLit); ok {
					text, _ = strconv.Unquote(literal.Value)
				}
			}
			return of + n.Names[0].Name, text
		}
	}
	return "", ""
}
