package redissim

import lua "github.com/yuin/gopher-lua"

// packs is struct.pack of forms that scripts use: widths of numbers, each behind an "I". The bytes
// are in the order in which ">" has them.
func packs(l *lua.LState) int {
	form := l.CheckString(1)
	text := make([]byte, 0, 64)
	for i, argument := 0, 2; i < len(form); i++ {
		if form[i] < '0' || form[i] > '9' {
			continue
		}
		n := int64(l.CheckNumber(argument))
		for shift := 8 * int(form[i]-'1'); shift >= 0; shift -= 8 {
			text = append(text, byte(n>>shift))
		}
		argument++
	}
	l.Push(lua.LString(text))
	return 1
}

// unpacks is struct.unpack of such forms; behind the numbers it returns where they end, as Redis
// does.
func unpacks(l *lua.LState) int {
	form, text, at := l.CheckString(1), l.CheckString(2), l.CheckInt(3)-1
	count := 0
	for i := range len(form) {
		if form[i] < '0' || form[i] > '9' {
			continue
		}
		end := at + int(form[i]-'0')
		if at < 0 || end > len(text) {
			l.RaiseError("data string too short")
		}
		var n int64
		for ; at < end; at++ {
			n = n<<8 | int64(text[at])
		}
		l.Push(lua.LNumber(n))
		count++
	}
	l.Push(lua.LNumber(at + 1))
	return count + 1
}
