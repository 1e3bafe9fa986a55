package columns

import (
	"strings"
	"testing"
)

// Servers hold what other processes wrote: no stored string changes by accident.
func TestStoredStringsStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		table *Table
		form  string
		bytes int
	}{
		{&Head, "SLG3%16d%13d%13d%13d%13d%16d%16d%16d%4d%15d%16d%16d%15d%16d%15d%16d", 233},
		{&Pending, "%16d%16d%13d%15d", 60},
		{&Entry, "%16d%15d%11d", 42},
		{&Packed, "%s%16d%13d%13d%13d%13d%16d%16d%16d%13d%16d", own},
		{&FixedWindow, "%16d%16d%13d%13d", 207},
		{&SlidingCounter, "%13d%16d%16d", 194},
		{&Cell, "%16d%13d", 29},
		{&LeakyBucket, "%16d%13d", 178},
		{&TokenBucket, "%16d%13d%16d%s", 311},
		{&Low, "%13d", 13},
		{&Booking, "%16d%13d", 29},
		{&Ledger, "SLB7%5d%13d%19d%11d%16d", 68},
		{&Sum, "%20d%11d", 31},
		{&Account, "%7d%16d%16d%4d%16d%1d%1d%16d%16d%20d", 113},
	} {
		if c.table.Form() != c.form || c.table.Bytes() != c.bytes {
			t.Errorf("%s is %d bytes of %s", c.table.Name, c.table.Bytes(), c.table.Form())
		}
	}
}

// Fragments that serve every algorithm write these columns in the same place, or the same form.
func TestColumnsThatAllAlgorithmsShare(t *testing.T) {
	for _, name := range []string{"epoch", "target", "share", "start", "window", "closed_until", "offset", "touched"} {
		head, _ := Lua("head." + name)
		if packed, _ := Lua("packed." + name); head == "" || head != packed {
			t.Errorf("%s: %s and %s", name, head, packed)
		}
	}
	for _, name := range []string{"epoch", "target"} {
		proposal, _ := Lua("proposal." + name)
		if head, _ := Lua("head." + name); head != proposal {
			t.Errorf("%s: %s, proposed %s", name, head, proposal)
		}
	}
	head, _ := Lua("head.contended.form")
	if packed, _ := Lua("packed.contended.form"); head != packed {
		t.Errorf("contended: %s and %s", head, packed)
	}
}

func TestWhatScriptsCallColumns(t *testing.T) {
	for name, want := range map[string]string{
		"head.total":                     "203, 217",
		"head.magic":                     "1, 4",
		"head.bytes":                     "233",
		"head.total.at":                  "202",
		"head.total.end":                 "216",
		"head.total.from":                "203",
		"head.total.to":                  "217",
		"head.total.width":               "15",
		"head.newest..total":             "187, 217",
		"head.newest..total.form":        "%16d%15d",
		"head.magic..target.form":        "SLG3%16d%13d",
		"head.closed_until..offset.zero": strings.Repeat(strings.Repeat(" ", 15)+"0", 2),
		"head.entries.blank":             "    ",
		"cell.date[i]":                   "i, i + 15",
		"cell.permits[i]":                "i + 16, i + 28",
		"cell.permits[at + 1]":           "at + 17, at + 29",
		"cell.date[..last]":              "last - 28, last - 13",
		"cell.permits[..#cells]":         "#cells - 12, #cells",
		"cell.date[..from - 1]":          "from - 29, from - 14",
		"cell.permits[30]":               "46, 58",
		"cell.next":                      "30",
		"cell.next[30]":                  "59",
		"cell.bytes[3]":                  "87",
		"cell.form":                      "%16d%13d",
		"windows.opened":                 "150, 165",
		"terms.head_life":                "102",
		"account.weight..stated":         "1, 23",
		"cell.date..permits[..index]":    "index - 28, index",
	} {
		if got, known := Lua(name); !known || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{
		"", "head", "head.nothing", "nothing.total", "head.total.nothing", "head.total..base", "head.total..",
		"cell.bytes[n]", "cell.date[i + j]",
	} {
		if got, known := Lua(name); known {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestReader(t *testing.T) {
	table := Table{Name: "sample", Columns: []Column{
		{Name: "mark", Fixed: "#"}, {Name: "id", Width: 4, Text: true}, {Name: "weight", Width: 7}, {Name: "credit", Width: 5},
	}}
	text := table.Sprint("0a1b", 7, -4)
	if len(text) != table.Bytes() {
		t.Fatalf("%d bytes", len(text))
	}
	r := table.Reader(text)
	if id, weight, credit := r.Text(), r.Number(), r.Number(); id != "0a1b" || weight != 7 || credit != -4 || r.Bad() {
		t.Errorf("%q, weight %d, credit %d", id, weight, credit)
	}
	if r.Number(); !r.Bad() {
		t.Error("read on behind the end")
	}
	for name, text := range map[string]string{"short": text[:10], "no mark": "x" + text[1:],
		"no number": text[:5] + "      x" + text[12:]} {
		bad := table.Reader(text)
		_, _ = bad.Text(), bad.Number()
		if bad.Number(); !bad.Bad() {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

func TestAppend(t *testing.T) {
	if got, want := string(Cell.Append(nil, 0, 17, -1)), Cell.Sprint(17, -1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(Terms.Append(nil, 7, 3, 12345)); got != "            312345" {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(100, func() {
		var room [64]byte
		_ = Group.Append(room[:0], 0, 1, 2, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestComment(t *testing.T) {
	lines := strings.Join(Comment("entry", 40), "\n")
	if want := "entry  1 date(16)  17 before(15)\n       32 span(11)  = 42 bytes"; lines != want {
		t.Errorf("%s", lines)
	}
	if Comment("nothing", 40) != nil {
		t.Error("a comment on nothing")
	}
}
