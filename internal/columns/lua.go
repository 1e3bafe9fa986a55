package columns

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Lua returns what a name means that scripts write behind "@", such as head.total; false if it
// means nothing.
//
//	head.bytes          how long it is; cell.bytes[32]: how long 32 of them are
//	head.form           its format, as string.format takes it, or struct.pack
//	head.total          "203, 217": where a column begins and ends, as string.sub takes it; of
//	                    one that reaches to the end of the string, only where it begins
//	cell.date[i]        "i, i + 15": the same where the string begins at i of another one
//	cell.date[..i]      "i - 28, i - 13": the same where the string ends at i of another one
//	head.total.from     203; .to 217; cell.date.from[..i]: i - 28
//	head.total.at       202: where a column begins, counted from 0, as SETRANGE and GETRANGE do
//	head.total.form     its format
//	head.total.zero     what it is if the number is 0
//
// In place of a column there may be a run of them: head.before..total.
func Lua(name string) (value string, known bool) {
	part := luaName.FindStringSubmatch(name)
	if part == nil {
		return "", false
	}
	i := slices.IndexFunc(tables, func(t *Table) bool { return t.Name == part[1] })
	if i < 0 {
		return "", false
	}
	t, column, last, attribute, index := tables[i], part[2], part[3], part[4], part[5]
	switch {
	case last != "" || attribute != "":
	case column == "bytes" && index != "":
		n, err := strconv.Atoi(strings.Trim(index, "[]"))
		return strconv.Itoa(n * t.Bytes()), err == nil
	case column == "bytes":
		return strconv.Itoa(t.Bytes()), true
	case column == "form" && index == "":
		return t.Form(), true
	}
	if last == "" {
		last = column
	}
	r := run{table: t, first: t.index(column), last: t.index(last)}
	if r.first < 0 || r.last < r.first {
		return "", false
	}
	return r.lua(attribute, index)
}

var luaName = regexp.MustCompile(`^([a-z_]+)\.([a-z_]+)(?:\.\.([a-z_]+))?(?:\.([a-z]+))?(\[[^]]+\])?$`)

func (t *Table) index(column string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
}

// run is some columns in a row.
type run struct {
	table       *Table
	first, last int
}

// lua returns an attribute of the run, or if there is none where it lies.
func (r run) lua(attribute, index string) (string, bool) {
	from, to := r.bounds()
	switch attribute {
	case "":
		place := r.place(from, to, index)
		return place, place != ""
	case "from":
		first, _, _ := strings.Cut(r.place(from, to, index), ",")
		return first, first != ""
	case "to":
		return strconv.Itoa(to), true
	case "at":
		return strconv.Itoa(from - 1), true
	case "form":
		return r.table.forms(r.first, r.last+1), true
	case "zero":
		zero := ""
		if r.table.Binary {
			return strings.Repeat(`\0`, to-from+1), true
		}
		for i := r.first; i <= r.last; i++ {
			zero += r.table.Columns[i].zero()
		}
		return zero, true
	}
	return "", false
}

// bounds are the first and the last byte, counted from 1.
func (r run) bounds() (from, to int) {
	from = r.table.Before + 1
	for i := range r.first {
		from += r.table.Columns[i].Width
	}
	to = from - 1
	for i := r.first; i <= r.last; i++ {
		to += r.table.Columns[i].Width
	}
	return from, to
}

// place is what string.sub takes; "" if the index is none.
func (r run) place(from, to int, index string) string {
	if index == "" {
		return r.both("", from, to)
	}
	index = index[1 : len(index)-1]
	shift := -1
	if end, ends := strings.CutPrefix(index, ".."); ends {
		index, shift = end, -r.table.Bytes()
	}
	for _, sign := range []string{" + ", " - "} {
		name, number, found := strings.Cut(index, sign)
		if !found {
			continue
		}
		n, err := strconv.Atoi(sign[1:2] + number)
		if err != nil {
			return ""
		}
		index, shift = name, shift+n
	}
	if n, err := strconv.Atoi(index); err == nil {
		index, shift = "", shift+n
	}
	return r.both(index, from+shift, to+shift)
}

// both writes where the run begins and ends; of one that reaches to the end, where it begins.
func (r run) both(base string, from, to int) string {
	if r.table.Columns[r.last].Width == 0 {
		return sum(base, from)
	}
	return sum(base, from) + ", " + sum(base, to)
}

// sum writes the sum of a name, if there is one, and a number.
func sum(name string, n int) string {
	switch {
	case name == "":
		return strconv.Itoa(n)
	case n > 0:
		return name + " + " + strconv.Itoa(n)
	case n < 0:
		return name + " - " + strconv.Itoa(-n)
	}
	return name
}
