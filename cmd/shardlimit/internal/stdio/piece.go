package stdio

import "bytes"

// pipeBuffer is how much POSIX systems write to a pipe in one piece: at least
// 512 bytes everywhere, 4096 on Linux.
const pipeBuffer = 4096

// piece returns the largest beginning of p of at most pipeBuffer bytes that
// consists of whole lines; if there is none, that much of the first line.
func piece(p []byte) []byte {
	if len(p) <= pipeBuffer {
		return p
	}
	if i := bytes.LastIndexByte(p[:pipeBuffer], '\n'); i >= 0 {
		return p[:i+1]
	}
	return p[:pipeBuffer]
}
