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
		{&Packed, "%13d%16d", own},
		{&Once, "%16d", 16},
		{&Log, "%4d%16d%15d%16d%15d%4d%16d", 115},
		{&Entry, "%16d%15d", 31},
		{&LeakyBucket, "%16d%13d", 58},
		{&TokenBucket, "%16d%13d%16d%s", 191},
		{&Low, "%13d", 13},
		{&Booking, "%16d%13d", 29},
		{&Ledger, "SLB8%5d%13d%20d%11d%20d%11d%20d%11d", 115},
		{&Account, "%7d%16d%16d%4d%17d%1d%1d%16d%16d%16d", 110},
	} {
		if c.table.Form() != c.form || c.table.Bytes() != c.bytes {
			t.Errorf("%s is %d bytes of %s", c.table.Name, c.table.Bytes(), c.table.Form())
		}
	}
}

func TestWhatScriptsCallColumns(t *testing.T) {
	for name, want := range map[string]string{
		"packed.touched":             "14, 29",
		"packed.bytes":               "29",
		"packed.touched.at":          "13",
		"packed.touched.end":         "28",
		"packed.touched.from":        "14",
		"packed.touched.to":          "29",
		"packed.touched.width":       "16",
		"packed.start..touched":      "1, 29",
		"packed.start..touched.form": "%13d%16d",
		"ledger.kind..count.form":    "SLB8%5d",
		"packed.start..touched.zero": strings.Repeat(" ", 12) + "0" + strings.Repeat(" ", 15) + "0",
		"ledger.count.blank":         "     ",
		"once.total[i]":              "i + 16",
		"entry.date[i]":              "i, i + 15",
		"entry.total[i]":             "i + 16, i + 30",
		"entry.total[at + 1]":        "at + 17, at + 31",
		"entry.date[..last]":         "last - 30, last - 15",
		"entry.total[..#entries]":    "#entries - 14, #entries",
		"entry.date[..from - 1]":     "from - 31, from - 16",
		"entry.total[30]":            "46, 60",
		"entry.bytes[3]":             "93",
		"entry.form":                 "%16d%15d",
		"log.since":                  "65, 80",
		"log.entries":                "116",
		"terms.head_life":            "76",
		"account.weight..stated":     "1, 23",
		"entry.date..total[..index]": "index - 30, index",
	} {
		if got, known := Lua(name); !known || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{
		"", "entry", "entry.nothing", "nothing.total", "entry.total.nothing", "entry.total..date", "entry.total..",
		"entry.bytes[n]", "entry.date[i + j]",
	} {
		if got, known := Lua(name); known {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestReader(t *testing.T) {
	table := Table{Name: "sample", Columns: []Column{
		{Name: "mark", Fixed: "#"}, {Name: "id", Width: 4, Text: true}, {Name: "weight", Width: 7},
		{Name: "credit", Width: 5},
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
	if got, want := string(Entry.Append(nil, 0, 17, -1)), Entry.Sprint(17, -1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(Terms.Append(nil, 5, 3, 12345)); got != "            312345" {
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
	lines := strings.Join(Comment("packed", 40), "\n")
	want := "packed  1 start(13)  14 touched(16)\n        30 own(to the end)"
	if lines != want {
		t.Errorf("%s", lines)
	}
	if Comment("nothing", 40) != nil {
		t.Error("a comment on nothing")
	}
}
