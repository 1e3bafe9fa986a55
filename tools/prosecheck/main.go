// Command prosecheck keeps lines short enough to read. It reports prose (Markdown, and comments of
// Go, Lua and shell) above 100 columns, code above 120, and links between Markdown files that lead
// nowhere.
//
//	prosecheck [-fix] [-code 60] [-kinds md,go,lua,sh] [-root DIR] [FILE...]
//
// With -fix it first wraps what can be wrapped by rule: paragraphs, lists and comments that have a
// long line, and code after a comma or an operator. Tables, code blocks, headings, directives and
// output of examples stay as they are, and so do testdata and generated files. -code is how many
// lines of code may be longer. The exit code is 1 if something is left to report.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	proseColumns = 100
	codeColumns  = 120
	tabColumns   = 4
)

// A finding is a line that is too long, or a link that leads nowhere.
type finding struct {
	path string
	line int
	code bool // a line of code: some of them may be long
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.what) }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("prosecheck", flag.ContinueOnError)
	flags.SetOutput(errs)
	root := flags.String("root", ".", "the folder that is checked")
	mend := flags.Bool("fix", false, "wrap what can be wrapped by rule")
	kinds := flags.String("kinds", "md,go,lua,sh", "which kinds of files are checked")
	code := flags.Int("code", 60, "how many lines of code may be longer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	found, err := check(*root, flags.Args(), strings.Split(*kinds, ","), *mend)
	if err != nil {
		fmt.Fprintln(errs, "prosecheck:", err)
		return 2
	}
	long := 0
	for _, f := range found {
		if f.code {
			long++
		}
	}
	left := 0
	for _, f := range found {
		if f.code && long <= *code {
			continue
		}
		fmt.Fprintln(out, f)
		left++
	}
	fmt.Fprintf(out, "prosecheck: %d lines of code above %d columns (at most %d), %d findings\n",
		long, codeColumns, *code, left)
	if left > 0 {
		return 1
	}
	return 0
}

// check looks at the files named, or at all below root, of these kinds.
func check(root string, paths, kinds []string, mend bool) ([]finding, error) {
	if len(paths) == 0 {
		all, err := files(root)
		if err != nil {
			return nil, err
		}
		paths = all
	} else {
		for i, path := range paths {
			paths[i] = filepath.Join(root, path)
		}
	}
	var found []finding
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lang := language(path, text)
		if lang == nil || !slices.Contains(kinds, lang.kind) || generated(text) {
			continue
		}
		if mend {
			better := lang.fix(text)
			for range 3 { // what was moved may be wrapped now
				better = lang.fix(better)
			}
			if !bytes.Equal(better, text) {
				if err := os.WriteFile(path, better, 0o644); err != nil {
					return nil, err
				}
			}
			text = better
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			name = path
		}
		found = append(found, lang.long(name, text)...)
	}
	dead, err := deadLinks(root, paths)
	found = append(found, dead...)
	slices.SortStableFunc(found, func(a, b finding) int { return bytes.Compare([]byte(a.path), []byte(b.path)) })
	return found, err
}
