package script

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The documentation names every command that a user of the server must be allowed.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "**ACL:**")
	list, _, found := strings.Cut(list, "\n- ")
	if !found {
		t.Fatal("no list of commands")
	}
	calls := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	for _, p := range programs {
		for _, call := range calls.FindAllStringSubmatch(p.text, -1) {
			if !strings.Contains(list, "`"+call[1]+"`") {
				t.Errorf("%s calls %s, which is not documented", p.name, call[1])
			}
		}
	}
}

func TestARequestThatAsksTheSameAgainIsNotWrittenAnew(t *testing.T) {
	r := &TakeRequest{Groups: []Group{{Size: 1, Count: 1}}}
	first := r.asks()
	if n := testing.AllocsPerRun(100, func() { _ = r.asks() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	r.Groups[0].Count = 2
	if second, fresh := r.asks(), (&TakeRequest{Groups: r.Groups}).asks(); second != fresh || second == first {
		t.Errorf("asks %q, want %q", second, fresh)
	}
}

// TestCommandsOfRedis62 asks the server since when there is each command and option that a script names, and what a script uses of Redis' own library.
func TestCommandsOfRedis62(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	names, functions := map[string]bool{}, map[string]bool{}
	for _, p := range programs {
		for _, name := range regexp.MustCompile(`'([A-Z]{2,})'`).FindAllStringSubmatch(p.text, -1) {
			names[name[1]] = true
		}
		for _, name := range regexp.MustCompile(`\bredis\.(\w+)`).FindAllStringSubmatch(p.text, -1) {
			functions[name[1]] = true
		}
	}
	if delete(functions, "call"); len(functions) != 1 || !functions["pcall"] {
		t.Errorf("besides call and pcall: %v", functions)
	}
	commands, newer := 0, map[string]string{}
	for name := range names {
		docs, err := command(t, client, "COMMAND", "DOCS", name).ToAny()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs.(map[string]any) {
			commands++
			since(name, "", doc.(map[string]any), newer)
		}
	}
	if commands < 20 {
		t.Errorf("only %d commands found in %v", commands, names)
	}
	for name := range names {
		if version := newer[name]; version != "" {
			t.Errorf("%s is there since %s", name, version)
		}
	}
}

// since notes what a command's documentation says is newer than Redis 6.2: the command itself and its options. Version is that of what the option
// belongs to, for options that have none of their own.
func since(name, version string, doc map[string]any, newer map[string]string) {
	if own, _ := doc["since"].(string); own != "" {
		version = own
	}
	var numbers []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		numbers = append(numbers, n)
	}
	if slices.Compare(numbers, []int{6, 3}) >= 0 {
		newer[name] = version
	}
	arguments, _ := doc["arguments"].([]any)
	for _, argument := range arguments {
		option := argument.(map[string]any)
		token, _ := option["token"].(string)
		since(token, version, option, newer)
	}
}
