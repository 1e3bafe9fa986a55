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

// This file puts scripts together. A script is several fragments in a row, one file each. They may
// include others, which include none, where few calls need them: to define a function costs every
// call that passes by. TestAssembled writes whole scripts to a folder.
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

// program is a script: what it is made of, and what of that is sent to servers.
type program struct {
	name  string            // in error messages
	file  string            // of the whole text, without its ending
	parts []string          // fragments in a row, by the names of their files without ".lua"
	names map[string]string // what "@NAME" means in this script alone

	number    int    // in programs
	text, sha string // sha is the name under which servers cache the text
}

func (p *program) assemble() {
	text := []byte("-- " + p.file + "\n")
	for _, part := range p.parts {
		text = p.add(text, part, "", true)
	}
	sum := sha1.Sum(text) // the name Redis gives it, not a secret
	p.text, p.sha = string(text), hex.EncodeToString(sum[:])
}

// add appends a fragment, indented like the line that includes it. One that is included includes
// none.
func (p *program) add(text []byte, name, indent string, inRow bool) []byte {
	fragment, err := fragments.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // the tests assemble every script
	}
	text = append(text, indent+"-- ["+name+".lua]\n"...)
	for line := range strings.Lines(string(fragment)) {
		bare := strings.TrimLeft(line, " ")
		other, includes := strings.CutPrefix(bare, inclusion)
		switch {
		case includes && inRow:
			if other = p.expand(strings.TrimSuffix(other, "\n")); other != "" {
				text = p.add(text, other, line[:len(line)-len(bare)], false)
			}
		case includes:
			panic("script: " + name + " is included, and has " + bare)
		case strings.HasPrefix(bare, directive+"layout "):
		case line == "\n":
			text = append(text, line...)
		default:
			text = append(text, indent+p.expand(line)...)
		}
	}
	return text
}

// expand replaces the names that begin with "@" by what they stand for: that of a column of a
// string (see columns.Lua), of a value of a reply, or of a constant.
func (p *program) expand(line string) string {
	at := strings.IndexByte(line, '@')
	if at < 0 {
		return line
	}
	end := at + len(atName.FindString(line[at:]))
	value, known := p.meaning(line[at+1 : end])
	if !known {
		panic("script: " + p.file + " has an unknown name: " + line)
	}
	return line[:at] + value + p.expand(line[end:])
}

var atName = regexp.MustCompile(`^@(?:[A-Z_]+|[a-z_]+\.[a-z_]+(?:\.\.[a-z_]+)?(?:\.[a-z]+)?(?:\[[^]]+\])?)`)

func (p *program) meaning(name string) (string, bool) {
	if value, known := p.names[name]; known {
		return value, true
	}
	if value, known := constants[name]; known {
		return value, true
	}
	if i, known := replyNames[name]; known {
		return strconv.Itoa(i + 1), true
	}
	if i := strings.IndexByte(name, '@'); i > 0 {
		name = name[:i] + p.expand(name[i:])
	}
	return columns.Lua(name)
}
