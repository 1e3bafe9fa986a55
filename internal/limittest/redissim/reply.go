package redissim

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/redis/rueidis"
)

// result has the layout of a rueidis.RedisResult, which has no public constructor; rueidis' own
// hooks make theirs alike.
type result struct {
	err error
	val rueidis.RedisMessage
}

// failed is n commands that ended in an error.
func failed(err error, n int) []rueidis.RedisResult {
	r := result{err: err}
	return slices.Repeat([]rueidis.RedisResult{*(*rueidis.RedisResult)(unsafe.Pointer(&r))}, n)
}

// resultOf is a reply as rueidis gives it to its callers.
func resultOf(reply any) rueidis.RedisResult {
	var r result
	if err := r.val.CacheUnmarshalView(encode(make([]byte, 7, 256), reply)); err != nil {
		r.err = err
	}
	return *(*rueidis.RedisResult)(unsafe.Pointer(&r))
}

// encode appends a reply in the form that rueidis keeps in its cache: type, length or number, and
// content.
func encode(text []byte, reply any) []byte {
	head := func(kind byte, n int) {
		text = binary.BigEndian.AppendUint64(append(text, kind), uint64(n))
	}
	switch r := reply.(type) {
	case int64:
		head(':', int(r))
	case string:
		head('$', len(r))
		text = append(text, r...)
	case status:
		head('+', len(r))
		text = append(text, r...)
	case failure:
		head('-', len(r))
		text = append(text, r...)
	case []any:
		head('*', len(r))
		for _, element := range r {
			text = encode(text, element)
		}
	default:
		head('_', 0)
	}
	return text
}
