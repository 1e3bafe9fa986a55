package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// This file puts scripts together. A script is several fragments in a row, one file each; a
// fragment may include others, where few calls need them: to define a function costs every call
// that passes by. TestAssembled writes whole scripts to a folder.
//
// A line "--@include name" is replaced by the fragment of that name, which may be "@NAME", too.
// Every fragment is preceded by a line with the name of its file. A line "--@layout name" tells
// readers which table of internal/columns a string has. Names that begin with "@" are columns of
// strings, values of replies, and constants: see expand.

//go:embed *.lua
var fragments embed.FS

const (
	directive = "--@" // begins lines that the server does not get
	inclusion = directive + "include "
)

// recipe says what a script is made of.
type recipe struct {
	name  string            // in error messages
	file  string            // of the whole text, without its ending
	parts []string          // fragments in a row, by the names of their files without ".lua"
	names map[string]string // what "@NAME" means in this script alone
}

// program is a script ready to be sent: its text and the name under which servers cache it.
type program struct {
	name string
	text string
	sha  string
}

func newProgram(name, text string) program {
	sum := sha1.Sum([]byte(text)) // the name Redis gives it, not a secret
	return program{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

func (r *recipe) program() program {
	a := assembly{recipe: r}
	a.line("-- " + r.file)
	for _, part := range r.parts {
		a.add(part, "")
	}
	return newProgram(r.name, a.text.String())
}

// assembly is a script under construction.
type assembly struct {
	recipe *recipe
	text   strings.Builder
}

func (a *assembly) line(line string) { a.text.WriteString(line + "\n") }

// add puts a fragment, indented like the line that includes it.
func (a *assembly) add(name, indent string) {
	text, err := fragments.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // the tests assemble every script
	}
	a.line(indent + "-- [" + name + ".lua]")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		bare := strings.TrimLeft(line, " ")
		other, includes := strings.CutPrefix(bare, inclusion)
		switch {
		case includes:
			if other = a.recipe.expand(other); other != "" {
				a.add(other, indent+line[:len(line)-len(bare)])
			}
		case strings.HasPrefix(bare, directive+"layout "):
		default:
			if line != "" {
				line = indent + a.recipe.expand(line)
			}
			a.line(line)
		}
	}
}

// expand replaces the names that begin with "@" by what they stand for: that of a column of a
// string (see columns.Lua), of a value of a reply, or of a constant.
func (r *recipe) expand(line string) string {
	at := strings.IndexByte(line, '@')
	if at < 0 {
		return line
	}
	end := at + len(atName.FindString(line[at:]))
	value, known := r.meaning(line[at+1 : end])
	if !known {
		panic("script: " + r.file + " has an unknown name: " + line)
	}
	return line[:at] + value + r.expand(line[end:])
}

var atName = regexp.MustCompile(`^@(?:[A-Z_]+|[a-z_]+\.[a-z_]+(?:\.\.[a-z_]+)?(?:\.[a-z]+)?(?:\[[^]]+\])?)`)

func (r *recipe) meaning(name string) (string, bool) {
	if value, known := r.names[name]; known {
		return value, true
	}
	if value, known := constants[name]; known {
		return value, true
	}
	if i, known := replyNames[name]; known {
		return strconv.Itoa(i + 1), true
	}
	if i := strings.IndexByte(name, '@'); i > 0 {
		name = name[:i] + r.expand(name[i:])
	}
	return columns.Lua(name)
}
