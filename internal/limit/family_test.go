package limit

import "testing"

// A node loses all keys at once, or one after the other: the log is told once a minute.
func TestALossOfManyKeysIsToldOnce(t *testing.T) {
	f, second := &Family{}, int64(1e9)
	if !f.hears("a", 0) || !f.hears("b", second) || f.hears("a", 59*second) || !f.hears("a", 60*second) {
		t.Error("the log is told too often, or not")
	}
}
