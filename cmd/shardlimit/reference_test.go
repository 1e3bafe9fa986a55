package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/urfave/cli/v3"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

var update = flag.Bool("update", false, "write what is generated of docs/reference/cli.md, and the pages of help, anew")

const (
	reference   = "../../docs/reference/cli.md"
	pagesOfHelp = "../../docs/reference/commands"
)

// Each command has a page, which is its help and fits a terminal, and there are no others. No line
// is broken again that a page breaks by hand. Help is asked for in several ways.
func TestPagesOfHelp(t *testing.T) {
	want := map[string]string{}
	for _, c := range append(commands(console{}), &cli.Command{Name: "completion"}) {
		text, code := runHere(t, c.Name, "--help")
		if code != exitOK {
			t.Errorf("%s --help ended with %d", c.Name, code)
		}
		want[c.Name+".txt"] = text
		fits(t, c.Name, text)
		for paragraph := range strings.SplitSeq(c.Description, "\n\n") { // one of a single line is wrapped
			byHand := strings.ReplaceAll(paragraph, "\n", "\n   ")
			if (byHand != paragraph || strings.HasPrefix(paragraph, " ")) && !strings.Contains(text, byHand) {
				t.Errorf("the page of %s breaks lines again: %s", c.Name, paragraph)
			}
		}
	}
	for _, args := range []string{"", "--help", "help", "help allow", "allow pulls --help", "allow --help pulls",
		"run --help x -- y"} {
		text, code := runHere(t, strings.Fields(args)...)
		if fits(t, args, text); code != exitOK && args != "" || !strings.Contains(text, "shardlimit ") {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
	}
	if *update {
		for name, text := range want {
			limittest.Must(t, os.WriteFile(filepath.Join(pagesOfHelp, name), []byte(text), 0o644))
		}
	}
	there, err := os.ReadDir(pagesOfHelp)
	if err != nil || len(there) != len(want) {
		t.Errorf("%d pages for %d commands, %v", len(there), len(want), err)
	}
	for _, page := range there {
		if read(t, filepath.Join(pagesOfHelp, page.Name())) != want[page.Name()] {
			t.Errorf("%s is not what go test -run TestPage -update writes", page.Name())
		}
	}
}

// fits checks that a page of help fits a terminal.
func fits(t *testing.T, name, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		if len(strings.TrimSuffix(line, "\n")) > helpWidth {
			t.Errorf("%s, %d columns: %s", name, len(line), line)
		}
	}
}

// The page has every command, in at most 500 words beside the names of flags.
func TestPageOfCommands(t *testing.T) {
	text := read(t, reference)
	want := between(t, text, "<!-- commands -->", "\n"+tableOfCommands())
	var flags []string
	for _, f := range targetFlags() {
		flags = append(flags, "`--"+f.Names()[0]+"`")
	}
	want = between(t, want, "<!-- target -->", "\n"+strings.Join(flags, " ")+"\n")
	if *update {
		limittest.Must(t, os.WriteFile(reference, []byte(want), 0o644))
		text = want
	}
	if text != want {
		t.Errorf("%s is not what go test -run TestPage -update writes", reference)
	}
	words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { // bars of the table, and flags
		return !strings.ContainsFunc(word, unicode.IsLetter) || strings.HasPrefix(word, "`--")
	})
	if len(words) > 500 {
		t.Errorf("%s has %d words", reference, len(words))
	}
}

// between replaces what stands between a mark and the end.
func between(t *testing.T, text, mark, by string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, mark)
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		t.Fatalf("%s has no %s", reference, mark)
	}
	return before + mark + by + "<!-- end -->" + after
}

func tableOfCommands() string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range append(commands(console{}), &cli.Command{Name: "completion", ArgsUsage: "SHELL",
		Usage: "print a completion script for a shell"}) {
		fmt.Fprintf(&b, "| [`%s`](commands/%s.txt) | %s |\n", strings.TrimSpace(c.Name+" "+c.ArgsUsage), c.Name,
			c.Usage)
	}
	return b.String()
}
