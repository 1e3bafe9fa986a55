package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// long is a sentence that fills two lines, whatever they begin with.
const (
	longFirst = "This sentence has so many words that it does not fit into one line of hundred columns"
	longRest  = "incomprehensibilities, so it goes on for some forty columns more."
	long      = longFirst + " " + longRest
)

type fixCase struct{ name, in, want string }

// fixes checks what becomes of texts, and that nothing more becomes of it.
func fixes(t *testing.T, l *lang, cases []fixCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := string(l.fix([]byte(c.in)))
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if again := string(l.fix([]byte(got))); again != got {
				t.Errorf("a second time\n%s", again)
			}
		})
	}
}

func TestMarkdownIsWrapped(t *testing.T) {
	fixes(t, languages[".md"], []fixCase{
		{"paragraph", long + "\nMore.\n", longFirst + "\n" + longRest + " More.\n"},
		{"item", "- one\n- " + long + "\n- three\n", "- one\n- " + longFirst + "\n  " + longRest + "\n- three\n"},
		{"numbered", "10. " + long + "\n",
			"10. " + longFirst + "\n    " + longRest + "\n"},
		{"short lines stay", "a\nb\n", "a\nb\n"},
		{"a code block stays", "```\n" + long + "\n```\n", "```\n" + long + "\n```\n"},
		{"indented code stays", "a\n\n    " + long + "\n", "a\n\n    " + long + "\n"},
		{"all lines of indented code stay",
			"a\n\n    x\n    " + long + "\n    <y>\n    z\n\n    " + long + "\n\n" + long + "\n",
			"a\n\n    x\n    " + long + "\n    <y>\n    z\n\n    " + long + "\n\n" +
				longFirst + "\n" + longRest + "\n"},
		{"indented code of an item stays", "- a\n\n      x\n      " + long + "\n  " + long + "\n",
			"- a\n\n      x\n      " + long + "\n  " + longFirst + "\n  " + longRest + "\n"},
		{"a table stays", "| " + long + " |\n", "| " + long + " |\n"},
		{"a heading stays", "## " + long + "\n", "## " + long + "\n"},
		{"no mark begins a line", strings.Repeat("x ", 49) + "xx - a\n", strings.Repeat("x ", 48) + "x\nxx - a\n"},
		{"code in a line is not torn", strings.Repeat("x", 90) + " `go test -run x .` y\n",
			strings.Repeat("x", 90) + "\n`go test -run x .` y\n"},
	})
}

func TestGoIsWrapped(t *testing.T) {
	const head = "package p\n\n"
	fixes(t, languages[".go"], []fixCase{
		{"comment", head + "// " + long + "\n// More.\nvar x int\n",
			head + "// " + longFirst + "\n// " + longRest + " More.\nvar x int\n"},
		{"paragraphs", head + "// A.\n//\n// " + long + "\n//\n//\tcode\nvar x int\n",
			head + "// A.\n//\n// " + longFirst + "\n// " + longRest + "\n//\n//\tcode\nvar x int\n"},
		{"labels in a block", head + "// A:\n//\n//\tlabel   " + long + "\n//\tx := 1  // " + long + "\nvar x int\n",
			head + "// A:\n//\n//\tlabel   " + longFirst + "\n//\t        " + longRest +
				"\n//\tx := 1  // " + long + "\nvar x int\n"},
		{"list", head + "// A:\n//   - " + long + "\n//   - b\nvar x int\n",
			head + "// A:\n//   - " + longFirst +
				"\n//     " + longRest + "\n//   - b\nvar x int\n"},
		{"directive", head + "// " + long + "\n//go:noinline\nfunc f() {}\n",
			head + "// " + longFirst + "\n// " + longRest + "\n//\n//go:noinline\nfunc f() {}\n"},
		{"long directive", head + "//go:generate " + long + "\n", head + "//go:generate " + long + "\n"},
		{"output of an example", head + "func f() {\n\t// Output:\n\t// " + long + "\n}\n",
			head + "func f() {\n\t// Output:\n\t// " + long + "\n}\n"},
		{"comment behind code", head + "var x int // " + long + "\n",
			head + "// " + longFirst + "\n// " + longRest + "\nvar x int\n"},
		{"comment behind a brace", head + "func f() {\n\tif true { // " + long + "\n\t}\n}\n",
			head + "func f() {\n\tif true {\n\t\t// " + longFirst +
				"\n\t\t// " + longRest + "\n\t}\n}\n"},
		{"code", head + "var x = f(g(" + strings.Repeat("x", 50) + ", " + strings.Repeat("y", 50) + "), 1, 22222)\n",
			head + "var x = f(g(" + strings.Repeat("x", 50) + ", " + strings.Repeat("y", 50) + "), 1,\n\t22222)\n"},
		{"a long text", head + "var x = \"" + long + "\"\n",
			head + "var x = \"" + longFirst +
				" \" +\n\t\"incomprehensibilities, so it goes on for some forty columns more.\"\n"},
		{"a text that is indexed stays", head + "var x = \"" + long + "\"[0]\n",
			head + "var x = \"" + long + "\"[0]\n"},
		{"what is excused stays", head + "var x = f(1, " + strings.Repeat("x", 90) + ") //nolint:errcheck // why\n",
			head + "var x = f(1, " + strings.Repeat("x", 90) + ") //nolint:errcheck // why\n"},
		{"a text stays", head + "var x = `\n// " + long + "`\n", head + "var x = `\n// " + long + "`\n"},
	})
}

func TestLuaIsWrapped(t *testing.T) {
	fixes(t, languages[".lua"], []fixCase{
		{"comment", "-- " + long + "\nlocal a = 1\n", "-- " + longFirst + "\n-- " + longRest + "\nlocal a = 1\n"},
		{"directives", "-- " + long + "\n-- include rest\n--@needs a\n",
			"-- " + longFirst + "\n-- " + longRest + "\n-- include rest\n--@needs a\n"},
		{"label", "-- ARGV  " + long + "\n--       3.. more\n",
			"-- ARGV  " + longFirst + "\n--       " + longRest +
				"\n--       3.. more\n"},
		{"columns", "-- head  " + strings.Repeat("a b(16)  ", 11) + "c(2)\n",
			"-- head  " + strings.TrimSpace(strings.Repeat("a b(16)  ", 10)) + "\n--       a b(16)  c(2)\n"},
		{"code", "local a = f('" + strings.Repeat("x", 60) + "', \"" + strings.Repeat("y", 60) + "\")\n",
			"local a =\n  f('" + strings.Repeat("x", 60) + "',\n    \"" + strings.Repeat("y", 60) + "\")\n"},
		{"long text", "local a = [[\n-- " + long + "\n]]\n", "local a = [[\n-- " + long + "\n]]\n"},
	})
}

func TestShellIsWrapped(t *testing.T) {
	fixes(t, languages[".sh"], []fixCase{
		{"comment", "#!/bin/sh\n# " + long + "\nx\n", "#!/bin/sh\n# " + longFirst + "\n# " + longRest + "\nx\n"},
	})
}

// tree writes files and returns the folder.
func tree(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestWhatIsReported(t *testing.T) {
	wide := strings.Repeat("x", 130)
	root := tree(t, map[string]string{
		"a.md":           long + "\n\nhttps://" + wide + "\n",
		"b.go":           "package p\n\n// " + long + "\nvar s = \"" + wide + "\"\n",
		"c.lua":          "-- " + long + "\n",
		"ci":             "#!/bin/bash\n# " + long + "\n",
		"d.go":           "// Code generated by x. DO NOT EDIT.\n\n// " + long + "\npackage p\n",
		"testdata/e.lua": "-- " + long + "\n",
		"f.md": "# A `b` c!\n\n[x](b.go), [x](#a-b-c), [x](g.md#there), [x](none.md), [x](#none), [x](g.md#none),\n" +
			"[x](https://example.org/none), `[x](none)`\n",
		"g.md":      "# There\n\n## Read ([more](f.md)) `x`\n\n[x](#read-more-x)\n",
		"sub/h.md":  "# Here\n\n[x](g.md#there)\n",
		"sub/i.txt": "[x](none.md)\n",
		"sub/j.md":  "<!-- part of whole.md -->\n\n[x](g.md#there)\n",
	})
	for allowed, want := range map[string][]string{
		"1": {"a.md:1: prose", "b.go:3: comment", "c.lua:1: comment", "ci:2: comment",
			"f.md:3: link to none.md", "f.md:3: link to #none", "f.md:3: link to g.md#none",
			"sub/h.md:3: link to g.md#there", "1 lines of code", "8 findings"},
		"0": {"b.go:4: code", "9 findings"},
	} {
		var out, errs bytes.Buffer
		if rc := run([]string{"-root", root, "-code", allowed}, &out, &errs); rc != 1 || errs.Len() > 0 {
			t.Errorf("%d, %s", rc, &errs)
		}
		for _, line := range want {
			if !strings.Contains(out.String(), line) {
				t.Errorf("not said with -code %s: %s\n%s", allowed, line, &out)
			}
		}
	}
}

func TestFixLeavesNothingToReport(t *testing.T) {
	root := tree(t, map[string]string{
		"a.md": long + "\n", "b.go": "package p\n\n// " + long + "\nvar x int\n", "c.lua": "-- " + long + "\n",
	})
	var out, errs bytes.Buffer
	if rc := run([]string{"-root", root, "-fix"}, &out, &errs); rc != 0 {
		t.Errorf("%d, %s%s", rc, &out, &errs)
	}
	if rc := run([]string{"-root", tree(t, map[string]string{"c.lua": "-- " + long + "\n"}), "-kinds", "md,go"}, &out,
		&errs); rc != 0 {
		t.Errorf("another kind: %d", rc)
	}
	if rc := run([]string{"-root", root, "-code", "x"}, &out, &errs); rc != 2 {
		t.Errorf("bad flag: %d", rc)
	}
	if rc := run([]string{"-root", root, "none.go"}, &out, &errs); rc != 2 {
		t.Errorf("no file: %d", rc)
	}
}
