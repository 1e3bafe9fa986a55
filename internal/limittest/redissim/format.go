package redissim

import (
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// quickly makes string.format fast for what scripts format most: %s, and integers by %d with or
// without a width, and by %.0f. Anything else goes to the interpreter's own.
func quickly(slow lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		form, ok := l.Get(1).(lua.LString)
		if !ok {
			return slow(l)
		}
		text := make([]byte, 0, 2*len(form)+64)
		argument := 2
		for i := 0; i < len(form); i++ {
			if form[i] != '%' {
				text = append(text, form[i])
				continue
			}
			width := 0
			for i++; i < len(form) && form[i] >= '0' && form[i] <= '9'; i++ {
				if form[i] == '0' && width == 0 {
					return slow(l)
				}
				width = 10*width + int(form[i]-'0')
			}
			if i == len(form) {
				return slow(l)
			}
			if form[i] == '.' && len(form) >= i+3 && form[i:i+3] == ".0f" && width == 0 {
				i += 2
			} else if form[i] != 'd' && (form[i] != 's' || width != 0) {
				return slow(l)
			}
			switch v := l.Get(argument).(type) {
			case lua.LNumber:
				n := int64(v)
				if form[i] == 's' || lua.LNumber(n) != v {
					return slow(l)
				}
				var room [24]byte
				digits := strconv.AppendInt(room[:0], n, 10)
				for pad := width - len(digits); pad > 0; pad-- {
					text = append(text, ' ')
				}
				text = append(text, digits...)
			case lua.LString:
				if form[i] != 's' {
					return slow(l)
				}
				text = append(text, v...)
			default:
				return slow(l)
			}
			argument++
		}
		l.Push(lua.LString(text))
		return 1
	}
}
