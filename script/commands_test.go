package script

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// The documentation names every command that a user of the server must be allowed.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../docs/howto/secure.md")
	must(t, err)
	_, block, _ := strings.Cut(string(text), "ACL SETUSER")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("no block with the rules of a user")
	}
	rules := strings.Fields(block)
	for _, name := range scriptCommands() {
		if !slices.Contains(rules, "+"+strings.ToLower(name)) {
			t.Errorf("a script calls %s, which is not documented", name)
		}
	}
}

// Scripts give commands only options that Redis 6.2 has, as its documentation says.
func TestOptionsAreThoseOfRedis62(t *testing.T) {
	known := append(scriptCommands(), "PX", "NX", "KEEPTTL", "LIMIT")
	calls, words := regexp.MustCompile(`call\('[^\n]*`), regexp.MustCompile(`'([A-Z]{2,})'`)
	for _, p := range programs {
		for _, line := range calls.FindAllString(p.text, -1) {
			for _, word := range words.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(known, word[1]) {
					t.Errorf("%s: %s in %s", p.name, word[1], line)
				}
			}
		}
	}
}

var assembledFolder = flag.String("assembled", "", "write the whole text of every script to this folder")

// Whole scripts can be written to a folder, to be read and to be linted: nothing that is meant for
// the assembly is left in them.
func TestAssembled(t *testing.T) {
	folder := *assembledFolder
	if folder == "" {
		folder = t.TempDir()
	}
	must(t, os.MkdirAll(folder, 0o755))
	texts := map[string]string{}
	for _, p := range programs {
		texts[p.file] = p.text
	}
	for name, text := range texts {
		if strings.Contains(text, directive) || !strings.HasPrefix(text, "-- "+name+"\n") {
			t.Errorf("%s is not ready to be sent", name)
		}
		must(t, os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600))
	}
	if len(texts) != programCount {
		t.Errorf("%d texts of %d scripts", len(texts), programCount)
	}
}

// Every fragment is in a script, and every name that scripts could write behind "@" is written
// somewhere.
func TestNothingIsLeftOver(t *testing.T) {
	var whole, written strings.Builder
	for _, p := range programs {
		whole.WriteString(p.text)
	}
	files, err := fragments.ReadDir(".")
	must(t, err)
	for _, file := range files {
		text, err := fragments.ReadFile(file.Name())
		must(t, err)
		written.Write(text)
		if !strings.Contains(whole.String(), "-- ["+file.Name()+"]\n") {
			t.Errorf("%s is in no script", file.Name())
		}
	}
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`@([A-Z_]+|[a-z_]+\.[a-z_]+)`).FindAllStringSubmatch(written.String(), -1) {
		used[name[1]] = true
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(constants)), slices.Sorted(maps.Keys(replyNames))) {
		if !used[name] {
			t.Errorf("no script writes @%s", name)
		}
	}
}

// Dates have more than 32 bits: where the server's own functions cut them off, or are not there,
// others stand in, and write the same bytes.
func TestNumbersKeepAllTheirBits(t *testing.T) {
	for name, server := range map[string]string{
		"no functions": "",
		"32 bits": `struct = {pack = function() return string.rep('\0', 7) end, unpack = function() return 0 end}
`,
	} {
		l := lua.NewState()
		defer l.Close()
		text, err := fragments.ReadFile("struct.lua")
		must(t, err)
		if err := l.DoString(server + string(text) + `
			assert(pack('>I7I2', 1700000000000001, 513) == '\6\10\36\24\30\64\1\2\1', 'bytes')
			local date, n = numbers('>I7I2', 'x\6\10\36\24\30\64\1\2\1', 2)
			assert(date == 1700000000000001 and n == 513, date .. ' ' .. n)`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
