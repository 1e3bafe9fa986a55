package script

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/columns"
)

const (
	// mostLocals is how many locals a function of a script may have at a time; Lua allows 200.
	mostLocals = 180
	// mostUpvalues is how many locals of others a function may use; Lua allows 60.
	mostUpvalues = 55
)

// knownGlobals are what Lua and Redis give to every script.
var knownGlobals = strings.Fields("ARGV KEYS _G assert ipairs math pairs pcall rawget redis string table" +
	" tonumber type unpack")

// contract is what a fragment has to do with the others.
type contract struct{ needs, sets, gives map[string]bool }

func newContract() *contract {
	return &contract{needs: map[string]bool{}, sets: map[string]bool{}, gives: map[string]bool{}}
}

// The first lines of every fragment name what it reads and sets of other fragments, and what they
// use of it: no more, no less. No script has a global, or more locals than Lua allows.
func TestFragmentsSayWhatTheyShare(t *testing.T) {
	found := map[string]*contract{}
	of := func(fragment string) *contract {
		if found[fragment] == nil {
			found[fragment] = newContract()
		}
		return found[fragment]
	}
	check := func(file string, lines, owners []string) {
		script := readable(t, file, strings.Join(lines, "\n"))
		for _, use := range script.uses {
			here := owners[use.line-1]
			if use.local == nil {
				if use.writes || !slices.Contains(knownGlobals, use.name) {
					t.Errorf("%s, line %d of %s: %s is global", here, use.line, file, use.name)
				}
				continue
			}
			there := owners[use.local.line-1]
			if here == there {
				continue
			}
			of(there).gives[use.name] = true
			if use.writes {
				of(here).sets[use.name] = true
			} else {
				of(here).needs[use.name] = true
			}
		}
	}
	for i := range recipes {
		lines, owners := recipes[i].assemble()
		check(recipes[i].file, lines, owners)
	}
	for _, name := range fragmentNames(t) {
		said, want := contractOf(t, name), of(name)
		for _, c := range []struct {
			word       string
			said, want map[string]bool
		}{{"needs", said.needs, want.needs}, {"sets", said.sets, want.sets}, {"gives", said.gives, want.gives}} {
			if !maps.Equal(c.said, c.want) {
				t.Errorf("%s.lua should begin with:\n%s", name, strings.Join(contractLines(c.word, c.want), "\n"))
			}
		}
	}
}

// readable is a script that has no more names than Lua allows.
func readable(t *testing.T, file, text string) *luaScope {
	t.Helper()
	script, err := readLua(text, file)
	if err != nil {
		t.Fatal(err)
	}
	if script.mostLocals > mostLocals || script.mostUpvalues > mostUpvalues {
		t.Errorf("%s has %d locals and %d upvalues in one function", file, script.mostLocals, script.mostUpvalues)
	}
	return script
}

// Every name that scripts could write behind "@" is written somewhere.
func TestNoNameIsLeftOver(t *testing.T) {
	var all strings.Builder
	for _, name := range fragmentNames(t) {
		text, err := fragments.ReadFile(name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`@([A-Z_]+|[a-z_]+\.[a-z_]+)`).FindAllStringSubmatch(all.String(), -1) {
		used[name[1]] = true
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(constants)), slices.Sorted(maps.Keys(replyNames))) {
		if !used[name] {
			t.Errorf("no script writes @%s", name)
		}
	}
}

func fragmentNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := fragments.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file.Name(), ".lua"))
	}
	return names
}

// contractOf reads what a fragment says of itself.
func contractOf(t *testing.T, fragment string) *contract {
	t.Helper()
	text, err := os.ReadFile(fragment + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	said := newContract()
	words := map[string]map[string]bool{"needs": said.needs, "sets": said.sets, "gives": said.gives}
	for line := range strings.Lines(string(text)) {
		rest, is := strings.CutPrefix(strings.TrimSpace(line), directive)
		if !is {
			continue
		}
		names := strings.Fields(rest)
		set, known := words[names[0]]
		if !known {
			_, table := columns.Lua(names[len(names)-1] + ".bytes")
			if len(names) != 2 || names[0] != "include" && (names[0] != "layout" || !table) {
				t.Errorf("%s.lua: what is %q?", fragment, line)
			}
			continue
		}
		for _, name := range names[1:] {
			if set[name] {
				t.Errorf("%s.lua says twice that it %s %s", fragment, names[0], name)
			}
			set[name] = true
		}
	}
	return said
}

// contractLines are the lines that a fragment should begin with.
func contractLines(word string, names map[string]bool) (lines []string) {
	line := directive + word
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(line)+1+len(name) > 100 {
			lines, line = append(lines, line), directive+word
		}
		line += " " + name
	}
	if len(names) == 0 {
		return []string{fmt.Sprintf("(no line %s%s)", directive, word)}
	}
	return append(lines, line)
}
