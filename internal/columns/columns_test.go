package columns

import "testing"

// Servers hold what other processes wrote: no stored string changes by accident.
func TestStoredStringsStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		table *Table
		form  string
		bytes int
	}{
		{&Packed, ">I6I7I7", own},
		{&Once, ">I7I7", 14},
		{&Log, ">I2I7I7I7I7I2I7", 59},
		{&Entry, ">I7I7", 14},
		{&LeakyBucket, ">I7I6", 33},
		{&TokenBucket, ">I7I6I7", 94},
		{&Low, ">I6", 6},
		{&Booking, ">I7I6", 13},
		{&Ledger, ">I8I8I8I8I8I8I8I8I8I8", 84},
		{&Account, ">I4I7I7I2I7I1I1I7I7I7", 50},
	} {
		if c.table.Form() != c.form || c.table.Bytes() != c.bytes {
			t.Errorf("%s is %d bytes of %s", c.table.Name, c.table.Bytes(), c.table.Form())
		}
	}
}

func TestWhatScriptsCallColumns(t *testing.T) {
	for name, want := range map[string]string{
		"packed.touched":             "14, 20",
		"packed.bytes":               "20",
		"packed.touched.at":          "13",
		"packed.touched.from":        "14",
		"packed.start..touched":      "1, 20",
		"packed.start..touched.form": ">I6I7I7",
		"packed.start.zero":          `\0\0\0\0\0\0`,
		"ledger.count.from":          "5",
		"caller.weight..unmet.form":  ">I4I7",
		"once.total[i]":              "i + 7, i + 13",
		"entry.date[i]":              "i, i + 6",
		"entry.total[i]":             "i + 7, i + 13",
		"entry.date[..last]":         "last - 13, last - 7",
		"entry.date.from[..last]":    "last - 13",
		"entry.total[..#entries]":    "#entries - 6, #entries",
		"entry.bytes[3]":             "42",
		"entry.form":                 ">I7I7",
		"log.since":                  "37, 43",
		"log.entries":                "60",
		"calm.need..state.form":      ">I7",
		"calm.state":                 "51",
		"account.weight..stated":     "1, 11",
		"entry.date..total[..index]": "index - 13, index",
	} {
		if got, known := Lua(name); !known || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{
		"", "entry", "entry.nothing", "nothing.total", "entry.total.nothing", "entry.total..date", "entry.total..",
		"entry.bytes[n]",
	} {
		if got, known := Lua(name); known {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAppend(t *testing.T) {
	const zeros = "\x00\x00\x00\x00\x00\x00"
	if got := string(Entry.Append([]byte("x"), 0, 1<<48, 1<<55+258)); got != "x\x01"+zeros+"\x80"+zeros[2:]+"\x01\x02" {
		t.Errorf("%q", got)
	}
	if got := string(Booking.Append(nil, 1, 0x3039)); got != zeros[2:]+"\x30\x39" {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(100, func() {
		var room [64]byte
		_ = Group.Append(room[:0], 0, 1, 2, 3)
		_ = Entry.Append(room[:0], 0, 1, 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNumbers(t *testing.T) {
	for _, want := range [][2]int64{{0, 0}, {17, 1<<55 + 258}, {1 << 40, 255}} {
		text, got := string(Entry.Append(nil, 0, want[:]...)), [2]int64{}
		if !Entry.Numbers(text, got[:]) || got != want || Entry.Numbers(text[:len(text)-1], got[:]) {
			t.Errorf("%v: %v", want, got)
		}
	}
}
