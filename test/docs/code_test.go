package docs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// goBlock is Go in a page.
var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// fenced is any block of code, and indentedGo is Go in a block without a fence.
var (
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	indentedGo = regexp.MustCompile(`(?m)^(?: {4}|\t).*:=.*$`)
)

// importable are the packages of which pieces of code in pages use something.
var importable = map[string]string{
	"context": "context", "errors": "errors", "http": "net/http", "io": "io", "log": "log", "net": "net", "os": "os",
	"slog": "log/slog", "synctest": "testing/synctest", "testing": "testing", "time": "time",
	"netip": "net/netip", "rueidis": "github.com/redis/rueidis",
	"grpc":       "google.golang.org/grpc",
	"shardlimit": "github.com/shardlimit/shardlimit", "embedded": "github.com/shardlimit/shardlimit/embedded",
	"httplimit":  "github.com/shardlimit/shardlimit/httplimit",
	"grpclimit":  "github.com/shardlimit/shardlimit/grpclimit",
	"envoylimit": "github.com/shardlimit/shardlimit/envoylimit",
}

// assumed is what pieces of code find declared: what pages say in words.
const assumed = `package pages

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
)

var (
	ctx                     context.Context
	client                  *shardlimit.Client
	limiter, logins, pulls, quota *shardlimit.Limiter
	perMinute, perDay, whole *shardlimit.Limiter
	family, users, hosts, keys, targets, requests, tokens *shardlimit.Family
	mux                     *http.ServeMux
	orders                  http.Handler
	tenant, customer, target string
	berlin                  *time.Location
	creds                   grpc.DialOption
)

func send(int64) bool { return false }

type account struct {
	ID    string
	Limit shardlimit.Limit
}

var (
	customers interface{ Of(*http.Request) account }
	plans     interface{ Of(string) shardlimit.Limit }
)
`

// TestCodeInPagesCompiles builds what README and docs show: whole programs are those of examples
// and of grpclimit, which tests run; pieces become functions.
func TestCodeInPagesCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds")
	}
	if race.Enabled {
		return // what go builds is the same
	}
	folder, overlay := t.TempDir(), map[string]string{}
	add := func(name, text string) {
		path := filepath.Join(folder, name)
		limittest.Must(t, os.WriteFile(path, []byte(text), 0o600))
		overlay[filepath.Join("internal", "pages", name)] = path
	}
	add("assumed.go", assumed)
	pieces, programs := 0, shownPrograms(t)
	for _, page := range append(documents(t), "../README.md", "../CONTRIBUTING.md") {
		text, name := document(t, page), "page_"+regexp.MustCompile(`\W`).ReplaceAllString(page, "_")+".go"
		if line := indentedGo.FindString(fenced.ReplaceAllString(text, "")); line != "" {
			t.Errorf("%s: Go without a fence is not compiled: %s", page, line)
		}
		var functions []string
		for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
			block, line := text[at[2]:at[3]], strings.Count(text[:at[2]], "\n")+1
			if strings.Contains(block, "func main()") || strings.HasPrefix(page, "migrate/") {
				if !strings.Contains(programs, block) {
					t.Errorf("%s:%d shows a program that is in no file", page, line)
				}
				continue
			}
			functions = append(functions, piece(t, fmt.Sprintf("docs/%s:%d", page, line), block))
		}
		if pieces += len(functions); len(functions) > 0 {
			add(name, pageFile(functions))
		}
	}
	if pieces < 5 {
		t.Errorf("only %d pieces of code were found", pieces)
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	limittest.Must(t, err)
	file := filepath.Join(folder, "overlay.json")
	limittest.Must(t, os.WriteFile(file, list, 0o600))
	if out, err := exec.Command("go", "build", "-overlay", file, "./internal/pages").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// shownPrograms are the texts of all files of which pages show the whole or a function.
func shownPrograms(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"examples/*/*.go", "grpclimit/internal/quickstart/*.go",
		"bench/internal/migrate/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			limittest.Must(t, err)
			all.Write(text)
		}
	}
	return all.String()
}

// piece is a function around some statements, in which nothing counts as unused. A block that
// begins with a function stays what it is.
func piece(t *testing.T, where, block string) string {
	t.Helper()
	if strings.HasPrefix(block, "func ") {
		return fmt.Sprintf("//line %s\n%s\n", where, block)
	}
	body := strings.ReplaceAll(block, "…\n", "\n")
	file, err := parser.ParseFile(token.NewFileSet(), where, "package p; func _() {\n"+body+"\n}", 0)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return ""
	}
	var uses strings.Builder
	function, _ := file.Decls[0].(*ast.FuncDecl)
	for _, statement := range function.Body.List {
		if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, name := range assign.Lhs {
				if id, ok := name.(*ast.Ident); ok && id.Name != "_" {
					fmt.Fprintf(&uses, "\n_ = %s", id.Name)
				}
			}
		}
	}
	return fmt.Sprintf("func _() {\n//line %s\n%s%s\n}\n", where, body, uses.String())
}

// pageFile is a file with these functions and the imports that they need.
func pageFile(functions []string) string {
	body := strings.Join(functions, "\n")
	var head strings.Builder
	head.WriteString("package pages\n\nimport (\n")
	for name, path := range importable {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(body) {
			fmt.Fprintf(&head, "\t%s %q\n", name, path)
		}
	}
	head.WriteString(")\n\n")
	return head.String() + body
}
