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

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The documentation names every command that a user of the server must be allowed.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../docs/howto/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "ACL SETUSER")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("no block with the rules of a user")
	}
	rules := strings.Fields(block)
	calls := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	for _, p := range programs {
		for _, call := range calls.FindAllStringSubmatch(p.text, -1) {
			if !slices.Contains(rules, "+"+strings.ToLower(call[1])) {
				t.Errorf("%s calls %s, which is not documented", p.name, call[1])
			}
		}
	}
}

// commandsOf62 are the commands that scripts may call, with the words after which an option
// follows: all are there since the version of Redis that the comment names, as its
// documentation says.
var commandsOf62 = map[string][]string{
	"TIME":          {},                      // 2.6.0
	"INFO":          {},                      // 1.0.0, the section 'server' too
	"TYPE":          {},                      // 1.0.0
	"EXISTS":        {},                      // 1.0.0
	"GET":           {},                      // 1.0.0
	"GETRANGE":      {},                      // 2.4.0
	"SET":           {"PX", "NX", "KEEPTTL"}, // 1.0.0; PX and NX 2.6.12, KEEPTTL 6.0.0
	"SETRANGE":      {},                      // 2.2.0
	"PEXPIRE":       {},                      // 2.6.0
	"PTTL":          {},                      // 2.6.0
	"DEL":           {},                      // 1.0.0
	"HDEL":          {},                      // 2.0.0, several fields 2.4.0
	"HGETALL":       {},                      // 2.0.0
	"HGET":          {},                      // 2.0.0
	"HSET":          {},                      // 2.0.0, several fields 4.0.0
	"ZADD":          {},                      // 1.2.0, several members 2.4.0
	"ZCARD":         {},                      // 1.2.0
	"ZCOUNT":        {},                      // 2.0.0
	"ZRANGEBYSCORE": {"LIMIT"},               // 1.0.5
	"ZREM":          {},                      // 1.2.0, several members 2.4.0
	"ZSCORE":        {},                      // 1.2.0
}

// A script names no command and no option that Redis 6.2 does not have, and uses nothing of
// Redis' own library but call and pcall.
func TestCommandsOfRedis62(t *testing.T) {
	options := map[string]bool{"WRONGTYPE": true, "SLB": true} // no commands
	for _, words := range commandsOf62 {
		for _, word := range words {
			options[word] = true
		}
	}
	call := regexp.MustCompile(`\bp?call\('([A-Z]+)'[^\n]*`)
	word := regexp.MustCompile(`'([A-Z]{2,})'`)
	seen := map[string]bool{}
	for _, p := range programs {
		for _, name := range regexp.MustCompile(`\bredis\.(\w+)`).FindAllStringSubmatch(p.text, -1) {
			if name[1] != "call" && name[1] != "pcall" {
				t.Errorf("%s uses redis.%s", p.name, name[1])
			}
		}
		for _, line := range call.FindAllStringSubmatch(p.text, -1) {
			name := line[1]
			seen[name] = true
			allowed, known := commandsOf62[name]
			if !known {
				t.Errorf("%s calls %s, which is not among the commands of Redis 6.2 listed here", p.name, name)
			}
			for _, option := range word.FindAllStringSubmatch(line[0], -1) {
				if option[1] != name && !slices.Contains(allowed, option[1]) && commandsOf62[option[1]] == nil {
					t.Errorf("%s calls %s with %s", p.name, name, option[1])
				}
			}
		}
		for _, name := range word.FindAllStringSubmatch(p.text, -1) {
			if _, command := commandsOf62[name[1]]; !command && !options[name[1]] {
				t.Errorf("%s names %s", p.name, name[1])
			}
			seen[name[1]] = true
		}
	}
	for name := range commandsOf62 {
		if !seen[name] {
			t.Errorf("no script calls %s", name)
		}
	}
}

// The server that is there has every command that scripts may call.
func TestTheServerHasAllCommands(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for name := range commandsOf62 {
		infos, err := command(t, client, "COMMAND", "INFO", name).ToArray()
		if err != nil || len(infos) != 1 || infos[0].IsNil() {
			t.Errorf("%s: %v, %v", name, infos, err)
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
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for i, p := range programs {
		texts[recipes[i].file] = p.text
	}
	for name, text := range texts {
		if strings.Contains(text, directive) || !strings.HasPrefix(text, "-- "+name+"\n") {
			t.Errorf("%s is not ready to be sent", name)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fragments.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if err := l.DoString(server + string(text) + `
			assert(pack('>I7I2', 1700000000000001, 513) == '\6\10\36\24\30\64\1\2\1', 'bytes')
			local date, n = numbers('>I7I2', 'x\6\10\36\24\30\64\1\2\1', 2)
			assert(date == 1700000000000001 and n == 513, date .. ' ' .. n)`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
