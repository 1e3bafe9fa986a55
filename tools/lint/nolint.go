package main

import (
	"regexp"

	"golang.org/x/tools/go/analysis"
)

// exception is a comment that excuses what one analyzer finds. It gives a reason.
var exception = regexp.MustCompile(`^//nolint:([a-z]+) // \S`)

// excusing returns an analyzer that is silent where a comment makes an exception.
func excusing(a *analysis.Analyzer) *analysis.Analyzer {
	excusing := *a
	excusing.Run = func(pass *analysis.Pass) (any, error) {
		excused := exceptions(pass, a.Name)
		heeding := *pass
		heeding.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if !excused[place{at.Filename, at.Line}] && !excused[place{at.Filename, 1}] {
				pass.Report(d)
			}
		}
		return a.Run(&heeding)
	}
	return &excusing
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// exceptions returns the lines with an exception from an analyzer.
func exceptions(pass *analysis.Pass, analyzer string) map[place]bool {
	excused := map[place]bool{}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				if m := exception.FindStringSubmatch(c.Text); m != nil && m[1] == analyzer {
					at := pass.Fset.Position(c.Pos())
					excused[place{at.Filename, at.Line}] = true
				}
			}
		}
	}
	return excused
}
