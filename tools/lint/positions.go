package main

import (
	"go/token"
	"regexp"

	"github.com/golangci/unconvert"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
)

// careless are functions whose errors nobody has to look at: there is nothing to be done.
var careless = regexp.MustCompile(`(?i)(close|flush|print(f|ln)?|os\.remove(all)?|os\.(un)?setenv)$`)

// unchecked reports the errors that errcheck finds, but those of careless functions.
var unchecked = &analysis.Analyzer{
	Name:     "errcheck",
	Doc:      "report errors nobody looks at",
	Requires: []*analysis.Analyzer{errcheck.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, e := range pass.ResultOf[errcheck.Analyzer].(errcheck.Result).UncheckedErrors {
			if !careless.MatchString(e.FuncName) {
				pass.Reportf(find(pass, e.Pos), "the error of %s is not looked at", e.FuncName)
			}
		}
		return nil, nil
	},
}

// conversions reports conversions of values to the type that they have.
var conversions = &analysis.Analyzer{
	Name: "unconvert",
	Doc:  "report conversions that do nothing",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, p := range unconvert.Run(pass) {
			pass.Reportf(find(pass, p), "this conversion does nothing")
		}
		return nil, nil
	},
}

// find returns where a place is in the files of a pass.
func find(pass *analysis.Pass, p token.Position) token.Pos {
	for _, f := range pass.Files {
		if file := pass.Fset.File(f.FileStart); file.Name() == p.Filename {
			return file.LineStart(p.Line) + token.Pos(p.Column-1)
		}
	}
	return token.NoPos
}
