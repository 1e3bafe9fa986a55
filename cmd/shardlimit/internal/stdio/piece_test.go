package stdio

import (
	"strings"
	"testing"
)

func TestPiece(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		in   string
		want int
	}{
		{"", 0},
		{"a\nb", 3},
		{x(pipeBuffer), pipeBuffer},
		{x(pipeBuffer-1) + "\n", pipeBuffer},
		{x(pipeBuffer-1) + "\nb\n", pipeBuffer},
		{x(pipeBuffer) + "\n", pipeBuffer},
		{"a\n" + x(pipeBuffer-2) + "\n", 2},
		{"a\nb\n" + x(2*pipeBuffer), 4},
		{x(2 * pipeBuffer), pipeBuffer},
	} {
		if got := piece([]byte(c.in)); len(got) != c.want {
			t.Errorf("piece of %d bytes is %d, want %d", len(c.in), len(got), c.want)
		}
	}
}
