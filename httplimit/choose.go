package httplimit

import (
	"net/http"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// One has all requests share one limiter. It panics if that is nil.
func One(l Limiter) Chooser {
	adapter.MustBe(l, "httplimit: One needs a Limiter")
	return func(*http.Request) Limiter { return l }
}

// PerKey gives every key a limit of its own: users, API keys, addresses. A request whose key is
// empty fails with ErrInvalidName; wrap the Chooser to treat it in another way. A key longer than
// shardlimit.MaxName bytes is counted by its SHA-256. It panics if family or key is nil.
func PerKey(family *shardlimit.Family, key func(*http.Request) string) Chooser {
	adapter.MustBe(family, "httplimit: PerKey needs a Family")
	adapter.MustBe(key, "httplimit: PerKey needs a key")
	return func(r *http.Request) Limiter { return family.Limiter(adapter.Bounded(key(r))) }
}

// remoteIP is what RemoteIP is.
var remoteIP = Address(AddressOptions{})

// RemoteIP is a key for PerKey: the address that the request came from. Of an
// IPv6 address it is the network of 64 bits, because whoever has one address of
// it has all. An address has one key however Request.RemoteAddr spells it: with a
// port or, as middleware for proxies leaves it, without; an IPv4 address as such or
// within IPv6. What is no address is a key as it stands, in lower case.
// Behind a proxy that is the proxy's address; Address finds the client's then.
func RemoteIP(r *http.Request) string { return remoteIP(r) }
