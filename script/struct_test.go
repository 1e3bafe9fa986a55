package script

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// Dates have more than 32 bits: where the server's own functions cut them off, or are not there,
// others stand in, and write the same bytes.
func TestNumbersKeepAllTheirBits(t *testing.T) {
	for name, server := range map[string]string{
		"no functions": "",
		"32 bits": `struct = {pack = function() return string.rep('\0', 7) end, unpack = function() return 0 end}
`,
	} {
		l := lua.NewState()
		defer l.Close()
		text, err := fragments.ReadFile("struct.lua")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.DoString(server + string(text) + `
			assert(pack('>I7I2', 1700000000000001, 513) == '\6\10\36\24\30\64\1\2\1', 'bytes')
			local date, n = numbers('>I7I2', 'x\6\10\36\24\30\64\1\2\1', 2)
			assert(date == 1700000000000001 and n == 513, date .. ' ' .. n)`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
