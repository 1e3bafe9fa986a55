// Command prosecheck keeps lines short enough to read. It reports prose (Markdown, and comments of
// Go, Lua and shell) above 100 columns, code above 120, words that are often misspelled, and links
// between Markdown files that lead nowhere.
//
//	prosecheck [-code 60] [-root DIR]
//
// Tables, directives and output of examples may be wider, and testdata and generated files are not
// looked at. -code is how many lines of code may be longer. The exit code is 1 if something is left
// to report.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	most := flags.Int("code", 60, "how many lines of code may be longer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	found, err := check(*root)
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
		if !f.code || long > *most {
			fmt.Fprintln(out, f)
			left++
		}
	}
	fmt.Fprintf(out, "prosecheck: %d lines of code above %d columns (at most %d), %d findings\n",
		long, codeColumns, *most, left)
	if left > 0 {
		return 1
	}
	return 0
}

var generated = regexp.MustCompile(`(?m)^(//|--|#|<!--) Code generated .* DO NOT EDIT\.`)

// check looks at all files below root that a person writes. Folders of golden files and what git
// keeps for itself are left out.
func check(root string) (found []finding, err error) {
	known := anchors{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "testdata", "vendor", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		look := languages[filepath.Ext(path)]
		if look == nil && filepath.Ext(path) != "" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if first, _, _ := bytes.Cut(text, []byte("\n")); look == nil && bytes.HasPrefix(first, []byte("#!")) &&
			bytes.HasSuffix(first, []byte("sh")) {
			look = languages[".sh"]
		}
		if look == nil || generated.Match(text[:min(len(text), 1000)]) {
			return nil
		}
		name, err := filepath.Rel(root, path)
		lines := look(string(text))
		found = append(found, tooLong(name, lines)...)
		found = append(found, misspelled(name, lines)...)
		if filepath.Ext(path) == ".md" {
			found = append(found, known.dead(path, name, lines)...)
		}
		return err
	})
	return found, err
}
