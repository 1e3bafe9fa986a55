package draw

import (
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/term"
)

// UsualWidth is how many columns there are where nobody says.
const UsualWidth = 80

// Page shows one text after another: on a terminal in the same place, elsewhere
// with an empty line between them.
type Page struct {
	Terminal bool
	out      *os.File
	drawn    int // rows of the last text
}

// NewPage returns a page that writes to a file.
func NewPage(out *os.File) *Page { return &Page{Terminal: term.IsTerminal(int(out.Fd())), out: out} }

// Size is how many columns and rows a text may have.
func (p *Page) Size() (width, height int) {
	if !p.Terminal {
		return UsualWidth, math.MaxInt
	}
	width, height, err := term.GetSize(int(p.out.Fd()))
	if err != nil || width < 2 || height < 2 {
		width, height = UsualWidth, 24
	}
	return width - 1, height - 1
}

// Show writes the rows of a text, in the place of the last one. Those that are too many for a
// terminal are left out.
func (p *Page) Show(rows []string) error {
	_, height := p.Size()
	_, err := p.out.WriteString(p.redraw(rows[:min(len(rows), height)]))
	return err
}

func (p *Page) redraw(rows []string) string {
	var b strings.Builder
	first, end := p.drawn == 0, "\n"
	switch {
	case p.Terminal && first:
		b.WriteString("\x1b[?25l") // no cursor
	case p.Terminal:
		fmt.Fprintf(&b, "\x1b[%dA\r", p.drawn)
	case !first:
		b.WriteString("\n")
	}
	if p.Terminal {
		end = "\x1b[K\n"
	}
	for _, row := range rows {
		b.WriteString(row + end)
	}
	if p.Terminal {
		b.WriteString("\x1b[J")
	}
	p.drawn = len(rows)
	return b.String()
}

// Close leaves the last text where it is.
func (p *Page) Close() {
	if p.Terminal {
		_, _ = p.out.WriteString("\x1b[?25h")
	}
}
