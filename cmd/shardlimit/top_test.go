package main

import (
	"strings"
	"testing"
)

// A terminal shows each text in the place of the last one, cut to its size.
func TestRedraw(t *testing.T) {
	p := &page{live: true}
	if got, want := p.redraw("one\ntwo two\nthree\n", 5, 2), "\x1b[?25lone\x1b[K\ntwo t\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := p.redraw("█████████\n", 5, 9), "\x1b[2A\r█████\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := p.redraw("x\n", 5, 9); !strings.HasPrefix(got, "\x1b[1A") {
		t.Errorf("%q", got)
	}
}
