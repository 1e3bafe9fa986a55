// Package columns describes the strings of fixed width that scripts keep in Redis or are given: one
// table each, from which Lua and Go have their offsets, widths and formats.
package columns

import "strconv"

// Table is a string of columns, one behind the other. Numbers are bytes, the highest first.
type Table struct {
	Name    string // by which scripts know it
	Before  int    // bytes in front of the first column
	Columns []Column
}

// Column is one value.
type Column struct {
	Name  string
	Width int  // bytes; 0: to the end of the string
	Text  bool // text of just that width, which has no form; else an integer
}

// Bytes is the number of bytes up to the end of the last column.
func (t *Table) Bytes() int { return t.upTo(len(t.Columns)) }

// upTo is the number of bytes in front of column i.
func (t *Table) upTo(i int) int {
	size := t.Before
	for _, c := range t.Columns[:i] {
		size += c.Width
	}
	return size
}

// Form is the format of all columns, as struct.pack takes it in Lua.
func (t *Table) Form() string { return t.forms(0, len(t.Columns)) }

func (t *Table) forms(from, to int) string {
	all := ">"
	for _, c := range t.Columns[from:to] {
		if c.Width > 0 && !c.Text {
			all += "I" + strconv.Itoa(c.Width)
		}
	}
	return all
}

// Append writes as many columns as there are numbers, beginning with the one of that index. It
// allocates nothing. Every number must fit.
func (t *Table) Append(text []byte, first int, numbers ...int64) []byte {
	for i, n := range numbers {
		for shift := 8 * (t.Columns[first+i].Width - 1); shift >= 0; shift -= 8 {
			text = append(text, byte(n>>shift))
		}
	}
	return text
}

// Numbers reads as many columns as there are places for, beginning with the first, and
// reports whether the text has them.
func (t *Table) Numbers(text string, dst []int64) bool {
	for i := range dst {
		width := t.Columns[i].Width
		if len(text) < width {
			return false
		}
		dst[i] = 0
		for at := range width {
			dst[i] = dst[i]<<8 | int64(text[at])
		}
		text = text[width:]
	}
	return true
}
