package main

import (
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A type or struct that is larger than this wants to be two.
const (
	mostMethods = 20 // of a type
	mostFields  = 12 // of a struct
)

// unbounded is what does not run in a user's process.
var unbounded = []string{"bench", "cmd", "deploy", "examples", "tools", "internal/limittest", "internal/redistest"}

// sizes finds types that do too much.
var sizes = &analysis.Analyzer{
	Name: "sizes",
	Doc:  "finds types with more than 20 methods, and structs with more than 12 fields",
	Run: func(pass *analysis.Pass) (any, error) {
		folder := folderOf(pass)
		if slices.ContainsFunc(unbounded, func(f string) bool { return within(folder, f) }) {
			return nil, nil
		}
		methods := make(map[string]int)
		var types []*ast.TypeSpec
		for _, file := range pass.Files {
			if strings.HasSuffix(pass.Fset.Position(file.Package).Filename, "_test.go") {
				continue
			}
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					methods[receiver(d)]++
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if t, ok := s.(*ast.TypeSpec); ok {
							types = append(types, t)
						}
					}
				}
			}
		}
		for _, t := range types {
			if n := methods[t.Name.Name]; n > mostMethods {
				pass.Reportf(t.Pos(), "%s has %d methods; more than %d want to be two types", t.Name.Name, n,
					mostMethods)
			}
			if s, ok := t.Type.(*ast.StructType); ok && s.Fields.NumFields() > mostFields {
				pass.Reportf(t.Pos(), "%s has %d fields; more than %d want to be two structs", t.Name.Name,
					s.Fields.NumFields(), mostFields)
			}
		}
		return nil, nil
	},
}

// receiver returns the name of the type that a function is a method of; "" for none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch g := of.(type) { // of a generic type
	case *ast.IndexExpr:
		of = g.X
	case *ast.IndexListExpr:
		of = g.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
