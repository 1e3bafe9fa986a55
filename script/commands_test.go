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
