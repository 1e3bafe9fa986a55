package adapter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// MustBe panics if v is nil, or a nil pointer or function: a mistake of the program.
func MustBe(v any, why string) {
	if IsNil(v) {
		panic(why)
	}
}

// IsNil reports whether v is nil, or a nil pointer or function: what a map has of no such key.
func IsNil(v any) bool {
	is := reflect.ValueOf(v)
	return v == nil || (is.Kind() == reflect.Pointer || is.Kind() == reflect.Func) && is.IsNil()
}

// Join makes one key of the parts that of reads from each key. Different parts never make the same
// key. The key is empty if one part is.
func Join[K any](keys []K, of func(K) string) string {
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
	return joined.String()
}

// FirstOf is the first part that is not empty, with its place, of those that of reads from each
// key.
func FirstOf[K any](keys []K, of func(K) string) string {
	for i, key := range keys {
		if part := of(key); part != "" {
			return strconv.Itoa(i) + ":" + part
		}
	}
	return ""
}

// AddressField is the name, as net/http keeps it, of the field in which proxies tell whom they
// speak for; "" means X-Forwarded-For. It panics if no field can have that name.
func AddressField(name string) string {
	const never = `"(),/:;<=>?@[\]{}`
	if odd := func(r rune) bool { return r <= ' ' || r > '~' }; strings.ContainsAny(name, never) ||
		strings.ContainsFunc(name, odd) {
		panic(fmt.Sprintf("httplimit: %q is not the name of a header field", name))
	}
	return http.CanonicalHeaderKey(cmp.Or(name, "X-Forwarded-For"))
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
