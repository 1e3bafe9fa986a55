package adapter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// MustBe panics if v is nil, or a nil pointer or function: a mistake of the program.
func MustBe(v any, why string) {
	is := reflect.ValueOf(v)
	if v == nil || (is.Kind() == reflect.Pointer || is.Kind() == reflect.Func) && is.IsNil() {
		panic(why)
	}
}

// Joined returns a function that makes one key of all keys of an adapter. Its argument reads a part
// from each. Different parts never make the same key. The key is empty if one part is.
func Joined[K any](adapter string, keys []K) func(of func(K) string) string {
	mustBeKeys(adapter, keys)
	return func(of func(K) string) string {
		var joined strings.Builder
		for _, key := range keys {
			part := of(key)
			if part == "" {
				return ""
			}
			joined.WriteString(strconv.Itoa(len(part)))
			joined.WriteByte(':')
			joined.WriteString(part)
		}
		return Bounded(joined.String())
	}
}

// FirstOf returns a function that finds the first part that is not empty, with its place. Its
// argument reads a part from each key.
func FirstOf[K any](adapter string, keys []K) func(of func(K) string) string {
	mustBeKeys(adapter, keys)
	return func(of func(K) string) string {
		for i, key := range keys {
			if part := of(key); part != "" {
				return Bounded(strconv.Itoa(i) + ":" + part)
			}
		}
		return ""
	}
}

func mustBeKeys[K any](adapter string, keys []K) {
	for i, key := range keys {
		MustBe(key, fmt.Sprintf("%s: key number %d is nil", adapter, i+1))
	}
}

// hashed begins the keys that stand for longer ones.
const hashed = "sha256:"

// Bounded returns a key of at most shardlimit.MaxName bytes, a SHA-256 in place of a longer one.
// One that looks like a hash is hashed too, so that nobody can send the hash of another's key.
func Bounded(key string) string {
	if len(key) <= shardlimit.MaxName && !strings.HasPrefix(key, hashed) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashed + hex.EncodeToString(sum[:])
}
