package demo

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Screen is a View that redraws a part of a terminal.
type Screen struct {
	file   *os.File
	colour bool
	drawn  int // rows of the last frame
}

// NewScreen draws on a terminal, in colour unless NO_COLOR is set.
func NewScreen(f *os.File) *Screen {
	return &Screen{file: f, colour: os.Getenv("NO_COLOR") == ""}
}

// Show implements View.
func (s *Screen) Show(shot Snapshot) {
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width < 1 || height < 2 {
		width, height = 80, 24
	}
	rows := frame(shot, width-1, height-1)
	var b strings.Builder
	if s.drawn == 0 {
		b.WriteString("\x1b[?25l") // no cursor
	} else {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	b.WriteString("\r")
	for _, r := range rows {
		b.WriteString(r.render(width-1, s.colour) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(rows)
	_, _ = s.file.WriteString(b.String())
}

// Close implements View: the last frame stays.
func (s *Screen) Close() { _, _ = s.file.WriteString("\x1b[?25h\n") }
