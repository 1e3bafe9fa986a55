package script

import (
	"os"
	"regexp"
	"strings"
	"testing"
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
