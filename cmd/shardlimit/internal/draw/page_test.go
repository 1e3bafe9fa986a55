package draw

import "testing"

// A terminal shows each text in the place of the last one; elsewhere they follow each other.
func TestPage(t *testing.T) {
	for terminal, want := range map[bool][]string{
		true:  {"\x1b[?25lone\x1b[K\ntwo\x1b[K\n\x1b[J", "\x1b[2A\rthree\x1b[K\n\x1b[J", "\x1b[1A\rx\x1b[K\n\x1b[J"},
		false: {"one\ntwo\n", "\nthree\n", "\nx\n"},
	} {
		p := &Page{Terminal: terminal}
		for i, rows := range [][]string{{"one", "two"}, {"three"}, {"x"}} {
			if got := p.redraw(rows); got != want[i] {
				t.Errorf("terminal %t: %q, want %q", terminal, got, want[i])
			}
		}
	}
}
