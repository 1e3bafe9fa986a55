package grpclimit_test

import (
	"os"
	"strings"
	"testing"
)

// The program of the document is the one that is compiled here.
func TestTheProgramOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("../docs/howto-grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("internal/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(document), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	if _, program, _ := strings.Cut(string(file), "\n"); shown != program {
		t.Errorf("the document shows\n%s\nthe program is\n%s", shown, program)
	}
	if n := strings.Count(shown, "\n"); n > 25 {
		t.Errorf("it has %d lines", n)
	}
	if n := len(strings.Fields(string(document))); n > 500 {
		t.Errorf("the document has %d words", n)
	}
}
