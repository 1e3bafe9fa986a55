package httplimit

import (
	"net/http"
	"strings"

	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Key makes the key of a request, for PerKey and Transport. It is called by many goroutines at the
// same time. The empty key means that the request has none; PerKey answers it with 400.
//
// The keys that this package makes are at most shardlimit.MaxName bytes long, whatever clients
// send: what is longer is a SHA-256 in its place.
type Key = func(*http.Request) string

// Header is the value of a header field as it stands, such as an API key; of several lines the
// first. Take only what was verified, or what clients gain nothing by changing: who makes up a new
// value has a fresh limit.
//
// Host is that of the request, in lower case, because net/http keeps it in Request.Host.
func Header(name string) Key {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return func(r *http.Request) string { return adapter.Bounded(strings.ToLower(r.Host)) }
	}
	return func(r *http.Request) string { return adapter.Bounded(r.Header.Get(name)) }
}

// Cookie is the value of a cookie; of several of that name the first.
func Cookie(name string) Key {
	return func(r *http.Request) string {
		c, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return adapter.Bounded(c.Value)
	}
}

// User is what id makes of a request, such as the subject of a verified token, within the bounds of
// Key. It panics if id is nil.
func User(id func(*http.Request) string) Key {
	adapter.MustBe(id, "httplimit: no function that tells the user")
	return func(r *http.Request) string { return adapter.Bounded(id(r)) }
}

// Route is the pattern that a ServeMux found for the request: all orders together, not each by its
// number. Only a handler behind the mux knows it, so wrap the handlers and not the mux.
func Route(r *http.Request) string { return adapter.Bounded(r.Pattern) }

// Method is the method of the request: GET, POST and so on.
func Method(r *http.Request) string {
	if r.Method == "" { // so requests of clients say GET
		return http.MethodGet
	}
	return adapter.Bounded(r.Method)
}

// Join makes one key of several, such as user and route. Different parts never make the same key.
// It is empty if one part is. It panics if a key is nil.
func Join(keys ...Key) Key {
	adapter.MustBeKeys("httplimit", keys)
	return func(r *http.Request) string {
		return adapter.Join(keys, func(key Key) string { return key(r) })
	}
}

// FirstOf is the first key that is not empty, such as the user and, if nobody is logged in, the
// address. Keys of different places are never the same. It panics if a key is nil.
func FirstOf(keys ...Key) Key {
	adapter.MustBeKeys("httplimit", keys)
	return func(r *http.Request) string {
		return adapter.FirstOf(keys, func(key Key) string { return key(r) })
	}
}
