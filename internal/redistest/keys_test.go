package redistest

import (
	"testing"

	"github.com/redis/rueidis"
)

func set(t *testing.T, c rueidis.Client, key, value string) {
	t.Helper()
	if err := c.Do(t.Context(), c.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// get returns a key's value, "" if there is none.
func get(t *testing.T, c rueidis.Client, key string) string {
	t.Helper()
	value, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return value
}
