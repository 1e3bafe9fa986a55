package pace

import "bytes"

// wholeLines returns how many bytes of p belong to lines that end in p, and how
// many such lines there are.
func wholeLines(p []byte) (size int, lines int64) {
	return bytes.LastIndexByte(p, '\n') + 1, int64(bytes.Count(p, newline))
}
