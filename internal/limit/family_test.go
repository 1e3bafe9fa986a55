package limit

import (
	"testing"
	"time"
)

// A node loses all keys at once, so the log is told of the first, and of none while more are found.
func TestALossOfManyKeysIsToldOnce(t *testing.T) {
	f := &Family{}
	for _, c := range []struct {
		node string
		at   time.Duration
		news bool
	}{
		{"a", 0, true}, {"a", 4 * time.Second, false}, {"b", 4 * time.Second, true}, {"a", 8 * time.Second, false},
		{"a", time.Minute, true},
	} {
		if f.hears(c.node, int64(c.at)) != c.news {
			t.Errorf("at %s, of %s: %t", c.at, c.node, !c.news)
		}
	}
}
