// Command lint sees what gofmt, go vet and staticcheck do not:
//
//	lint ./...
//
// Its analyzers are few, each for a reason, and no warning is ignored in bulk. An exception is a
// comment "//nolint:name // reason" in its line, or one for the whole file in its first line.
package main

import (
	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/sashamelentyev/usestdlibvars/pkg/analyzer"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
)

func main() {
	all := []*analysis.Analyzer{
		bodyclose.Analyzer,      // an HTTP response left open leaks its connection
		arrows,                  // the arrows between our packages
		unchecked,               // an error nobody looked at
		errorlint.NewAnalyzer(), // errors are compared with errors.Is and errors.As
		ineffassign.Analyzer,    // a value that is never read
		analyzer.New(),          // http.MethodGet, not "GET"
		conversions,             // a conversion that does nothing
		sizes,                   // a type that does too much
	}
	for i, a := range all {
		all[i] = excusing(a)
	}
	multichecker.Main(all...)
}
