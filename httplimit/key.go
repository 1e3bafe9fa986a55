package httplimit

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Key makes the key of a request, for PerKey and Transport. It is called by many goroutines at the
// same time. The empty key means that the request has none; PerKey answers it with 400. Of what
// clients may make up, a key can be longer than shardlimit.MaxName; PerKey takes it all the same.
type Key = func(*http.Request) string

// Header is the value of a header field as it stands, such as an API key; of several lines the
// first. Take only what was verified, or what clients gain nothing by changing: who makes up a new
// value has a fresh limit.
//
// Host is that of the request, in lower case, because net/http keeps it in Request.Host.
func Header(name string) Key {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return func(r *http.Request) string { return strings.ToLower(r.Host) }
	}
	return func(r *http.Request) string { return r.Header.Get(name) }
}

// Cookie is the value of a cookie; of several of that name the first.
func Cookie(name string) Key {
	return func(r *http.Request) string {
		c, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return c.Value
	}
}

// Route is the pattern that a ServeMux found for the request: all orders together, not each by its
// number. Only a handler behind the mux knows it, so wrap the handlers and not the mux.
func Route(r *http.Request) string { return r.Pattern }

// Method is the method of the request: GET, POST and so on. Requests of clients may say "" for GET.
func Method(r *http.Request) string { return cmp.Or(r.Method, http.MethodGet) }

// Join makes one key of several, such as user and route. Different parts never make the same key.
// It is empty if one part is.
func Join(keys ...Key) Key {
	return func(r *http.Request) string {
		return adapter.Join(keys, func(key Key) string { return key(r) })
	}
}

// FirstOf is the first key that is not empty, such as the user and, if nobody is logged in, the
// address. Keys of different places are never the same.
func FirstOf(keys ...Key) Key {
	return func(r *http.Request) string {
		return adapter.FirstOf(keys, func(key Key) string { return key(r) })
	}
}
