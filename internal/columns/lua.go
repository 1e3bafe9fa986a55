package columns

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Lua returns what a name means that scripts write behind "@", such as head.total; false if it
// means nothing.
//
//	head.bytes          how long it is; cell.bytes[32]: how long 32 of them are
//	head.form           its format, as struct.pack takes it
//	head.total          "203, 217": where a column begins and ends, as string.sub takes it; of
//	                    one that reaches to the end of the string, only where it begins
//	cell.date[i]        "i, i + 15": the same where the string begins at i of another one
//	cell.date[..i]      "i - 28, i - 13": the same where the string ends at i of another one
//	head.total.from     203; cell.date.from[..i]: i - 28
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
	case column == "bytes":
		n, err := strconv.Atoi(strings.Trim(cmp.Or(index, "1"), "[]"))
		return strconv.Itoa(n * t.Bytes()), err == nil
	case column == "form" && index == "":
		return t.Form(), true
	}
	first, end := t.index(column), t.index(cmp.Or(last, column))+1
	if first < 0 || end <= first {
		return "", false
	}
	return t.lua(first, end, attribute, index)
}

var luaName = regexp.MustCompile(`^([a-z_]+)\.([a-z_]+)(?:\.\.([a-z_]+))?(?:\.([a-z]+))?(\[[^]]+\])?$`)

func (t *Table) index(column string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
}

// lua returns an attribute of some columns in a row, or if there is none where they lie.
func (t *Table) lua(first, end int, attribute, index string) (string, bool) {
	from, to := t.upTo(first)+1, t.upTo(end)
	switch attribute {
	case "", "from":
		ends := []int{from, to}
		if attribute == "from" || t.Columns[end-1].Width == 0 {
			ends = ends[:1]
		}
		return t.shifted(index, ends), true
	case "at":
		return strconv.Itoa(from - 1), true
	case "form":
		return t.forms(first, end), true
	case "zero":
		return strings.Repeat(`\0`, to-from+1), true
	}
	return "", false
}

// shifted writes places in a string that lies where the index says in another one.
func (t *Table) shifted(index string, places []int) string {
	base, shift := strings.Trim(index, "[]"), 0
	if end, ends := strings.CutPrefix(base, ".."); ends {
		base, shift = end, -t.Bytes()
	} else if base != "" {
		shift = -1
	}
	all := make([]string, len(places))
	for i, place := range places {
		switch n := place + shift; {
		case base == "":
			all[i] = strconv.Itoa(n)
		case n > 0:
			all[i] = base + " + " + strconv.Itoa(n)
		case n < 0:
			all[i] = base + " - " + strconv.Itoa(-n)
		default:
			all[i] = base
		}
	}
	return strings.Join(all, ", ")
}
