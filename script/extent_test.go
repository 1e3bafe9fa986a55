package script

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

func init() { extent.FewerDraws() }

// What is played in part and needs a real server is played in full by one line of .ci/run, which
// finds it by its name. A walk on a server that has another name would never be played in full.
func TestWalksThatNeedAServerHaveNamesThatTheCheckFinds(t *testing.T) {
	run, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`SHARDLIMIT_FULL=1 .*-run '([^']+)' \./script\n`).FindSubmatch(run)
	if line == nil {
		t.Fatal(".ci/run plays no walks of this package in full")
	}
	found := regexp.MustCompile(string(line[1]))
	walks := 0
	uses := testUses(t)
	for name := range uses {
		if !strings.HasPrefix(name, "Test") {
			continue
		}
		all := map[string]bool{}
		reach(uses, name, all)
		if !all["extent.Some"] && !all["extent.Full"] {
			continue
		}
		switch server := all["redistest"]; {
		case server && !found.MatchString(name):
			t.Errorf("%s walks on a server, and %s does not match its name", name, found)
		case server:
			walks++
		}
	}
	if walks == 0 {
		t.Error("no walk on a server was found")
	}
}

// testUses tells of each function of the tests which functions of the package it names, and which
// of extent and redistest. A prefix for keys needs no server.
func testUses(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					from, _ := n.X.(*ast.Ident)
					switch {
					case from == nil:
						return true
					case from.Name == "extent":
						uses[f.Name.Name] = append(uses[f.Name.Name], "extent."+n.Sel.Name)
					case from.Name == "redistest" && n.Sel.Name != "Prefix":
						uses[f.Name.Name] = append(uses[f.Name.Name], "redistest")
					}
					return false // a field or method, not a function of the package
				case *ast.Ident:
					uses[f.Name.Name] = append(uses[f.Name.Name], n.Name)
				}
				return true
			})
		}
	}
	return uses
}

// reach notes all that a function uses, itself or by others.
func reach(uses map[string][]string, name string, all map[string]bool) {
	for _, used := range uses[name] {
		if !all[used] {
			all[used] = true
			reach(uses, used, all)
		}
	}
}
