package main

import (
	"strings"
	"testing"
)

// A page of help fits a terminal, and its examples stand as they are typed.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(commands(console{}), newApp(console{})) {
		for _, paragraph := range strings.Split(c.Description, "\n\n") { // one of a single line is wrapped
			lines := strings.Split(paragraph, "\n")
			for _, line := range lines {
				if (len(lines) > 1 || line[0] == ' ') && len(line) > helpWidth-3 {
					t.Errorf("%s, %d columns: %s", c.Name, len(line), line)
				}
			}
		}
		out, code := runHere(t, append(strings.Fields(strings.TrimPrefix(c.Name, "shardlimit")), "--help")...)
		for line := range strings.Lines(out) {
			if len(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s, %d columns: %s", c.Name, len(line), line)
			}
		}
		if code != 0 || !strings.Contains(out, "OPTIONS:\n   --") {
			t.Errorf("%s: %d, %s", c.Name, code, out)
		}
	}
}
