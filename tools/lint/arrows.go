package main

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const module = "github.com/shardlimit/shardlimit"

// allowed says what each package imports besides the standard library: "" is the root, other names
// without a dot are folders of ours, and what is below a package of others counts as it. Tests, and
// packages outside of internal that are not listed, may import what they like.
//
//	root -> set -> wait -> call -> limit -> {dispatch, register} -> {node, telemetry}
//	{limit, call} -> {node, forecast, local} -> {script, shard}
//	script -> fairness -> internal/columns
//
// Neither dispatch nor register knows the other. Of what runs in a process only the root, script
// and internal/node import the client.
var allowed = map[string][]string{
	"shard":    {"github.com/cespare/xxhash/v2"},
	"fairness": {"internal/columns"}, // what is stored, which Lua and Go must see alike
	"script": {
		"fairness", "internal/clock", "internal/columns", "internal/majority", "github.com/redis/rueidis",
	},
	"internal/clock":     {},
	"internal/chance":    {},
	"internal/columns":   {},
	"internal/maxmin":    {},
	"internal/problem":   {},
	"internal/forecast":  {"script"},
	"internal/local":     {"internal/clock", "script"},
	"internal/majority":  {},
	"internal/telemetry": {"internal/clock", "script", "go.opentelemetry.io/otel"},
	"internal/node": {
		"internal/chance", "internal/clock", "internal/telemetry", "script", "shard",
		"github.com/redis/rueidis", "go.opentelemetry.io/otel",
	},
	"internal/record": {
		"internal/chance", "internal/clock", "internal/majority", "internal/node", "internal/telemetry",
		"script", "shard",
	},
	"internal/membership": {
		"internal/clock", "internal/majority", "internal/node", "internal/record", "shard",
	},
	"internal/register": {
		"internal/chance", "internal/clock", "internal/membership", "internal/node", "internal/record",
		"internal/telemetry", "script", "shard",
	},
	"internal/dispatch": {
		"fairness", "internal/chance", "internal/clock", "internal/node", "internal/telemetry", "script",
		"shard", "go.opentelemetry.io/otel",
	},
	"internal/limit": {
		"internal/chance", "internal/clock", "internal/dispatch", "internal/local",
		"internal/membership", "internal/node", "internal/record", "internal/register",
		"internal/telemetry", "script", "shard", "go.opentelemetry.io/otel",
	},
	"internal/call": {
		"fairness", "internal/chance", "internal/clock", "internal/dispatch", "internal/forecast",
		"internal/limit", "internal/local", "internal/node", "internal/register", "internal/telemetry",
		"script", "shard", "github.com/cespare/xxhash/v2",
	},
	"internal/wait": {
		"internal/call", "internal/chance", "internal/clock", "internal/limit", "internal/register",
	},
	"internal/set": {
		"internal/call", "internal/chance", "internal/clock", "internal/limit", "internal/wait",
	},
	"ratelike":         {"", "internal/clock"},
	"internal/adapter": {"", "internal/clock", "go.opentelemetry.io/otel"},
	"httplimit":        {"", "internal/adapter", "internal/clock", "internal/problem", "go.opentelemetry.io/otel"},
	"grpclimit": {
		"", "httplimit", "internal/adapter", "go.opentelemetry.io/otel",
		"google.golang.org/genproto/googleapis/rpc/errdetails", "google.golang.org/grpc",
		"google.golang.org/protobuf/types/known/durationpb",
	},
	"envoylimit": {
		"", "envoylimit/rules", "internal/adapter", "github.com/envoyproxy/go-control-plane/envoy",
		"go.opentelemetry.io/otel", "google.golang.org/grpc",
		"google.golang.org/protobuf/types/known/durationpb",
	},
	"envoylimit/rules": {"gopkg.in/yaml.v3"},
	"internal/inside":  {"internal/call"}, // the root sets its functions
	"internal/history": {"golang.org/x/sys/unix"},
	"internal/race":    {},
	"internal/extent":  {"internal/race"},
	"internal/limittest/redissim": {
		"internal/chance", "github.com/alicebob/miniredis/v2/server", "github.com/redis/rueidis",
		"github.com/yuin/gopher-lua",
	},
	"internal/limittest/ledger": {"fairness", "internal/columns"},
	"internal/limittest": {
		"", "embedded", "internal/call", "internal/history", "internal/inside", "internal/limit",
		"internal/limittest/redissim", "internal/race", "internal/redistest", "script",
		"github.com/alicebob/miniredis/v2", "github.com/redis/rueidis",
	},
	"internal/redistest": {"github.com/redis/rueidis"},
}

// io are what a package without I/O does not import of the standard library.
var io = []string{"net", "os"}

// pure are the packages without I/O.
var pure = []string{"shard", "fairness", "internal/majority", "internal/maxmin", "envoylimit/rules"}

// reserved says where a package is imported by what is no test, and nowhere else.
var reserved = map[string][]string{
	"github.com/alicebob/miniredis": {"bench/internal/scenario", "embedded", "internal/limittest"},
	module + "/internal/limittest":  {"internal/limittest"},
	"testing":                       {"internal", "bench/internal"},
}

// arrows reports imports that are not allowed.
var arrows = &analysis.Analyzer{
	Name: "arrows",
	Doc:  "report imports against the order of the packages",
	Run: func(pass *analysis.Pass) (any, error) {
		folder := folderOf(pass)
		for _, file := range pass.Files {
			name := pass.Fset.Position(file.Pos()).Filename
			if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") {
				continue // what runs tests is generated
			}
			for _, spec := range file.Imports {
				if imported, _ := strconv.Unquote(spec.Path.Value); !mayImport(folder, imported) {
					pass.Reportf(spec.Pos(), "%s may not import %s: see tools/lint/arrows.go", folder, imported)
				}
			}
		}
		return nil, nil
	},
}

// folderOf returns where a package is: "" for the root.
func folderOf(pass *analysis.Pass) string {
	path, _, _ := strings.Cut(pass.Pkg.Path(), " ") // of a package with its tests
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// mayImport says whether the package in a folder may import another.
func mayImport(folder, imported string) bool {
	for pkg, users := range reserved {
		if within(imported, pkg) && !slices.ContainsFunc(users, func(u string) bool { return within(folder, u) }) {
			return false
		}
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		outside := slices.ContainsFunc(io, func(p string) bool { return within(imported, p) })
		return !outside || !slices.Contains(pure, folder)
	}
	others, named := allowed[folder]
	if !named {
		return !strings.HasPrefix(folder, "internal/")
	}
	return slices.ContainsFunc(others, func(other string) bool {
		if ours, ok := strings.CutPrefix(imported, module); ok {
			return strings.TrimPrefix(ours, "/") == other
		}
		return within(imported, other)
	})
}

// within says whether a package is another one, or is below it.
func within(path, other string) bool { return path == other || strings.HasPrefix(path, other+"/") }
