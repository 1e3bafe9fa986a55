package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

const maxNameInPrefix = 48

// Prefix returns a key prefix that no other call returns, in this process or
// another, so that tests can share a server. It begins with the test's name
// (letters, digits, '-' and '_' of it, at most 48), holds no braces, which
// would be taken for a hash tag, and ends in ':'.
func Prefix(tb testing.TB) string {
	tb.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, tb.Name())
	if len(name) > maxNameInPrefix {
		name = name[:maxNameInPrefix]
	}
	var unique [8]byte
	_, _ = rand.Read(unique[:]) // never fails, says crypto/rand
	return name + "-" + hex.EncodeToString(unique[:]) + ":"
}
