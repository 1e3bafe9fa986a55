package main

import "strings"

// shellSource knows lines that begin with #: what stands behind code is code.
func shellSource(text []byte) *source {
	s := newSource(string(text), "#")
	for i, line := range s.lines {
		s.remark[i] = strings.HasPrefix(strings.TrimSpace(line), "#")
	}
	return s
}

func longShell(path string, text []byte) []finding { return shellSource(text).long(path) }

func fixShell(text []byte) []byte { return []byte(shellSource(text).rewrap()) }
