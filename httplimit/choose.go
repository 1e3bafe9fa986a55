package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/shardlimit/shardlimit"
)

// One has all requests share one limiter.
func One(l Limiter) Chooser {
	return func(*http.Request) Limiter { return l }
}

// PerKey gives every key a limit of its own: users, API keys, addresses. A request whose key is empty or
// longer than shardlimit.MaxName bytes fails with ErrInvalidName; wrap the
// Chooser to treat it in another way.
func PerKey(family *shardlimit.Family, key func(*http.Request) string) Chooser {
	return func(r *http.Request) Limiter { return family.Limiter(key(r)) }
}

// RemoteIP is a key for PerKey: the address that the request came from. Of an
// IPv6 address it is the network of 64 bits, because whoever has one address of
// it has all. Behind a proxy that is the proxy's address; take the key from a header then that
// the proxy sets and that clients cannot forge.
func RemoteIP(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := at.Addr().Unmap()
	if !ip.Is6() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil { // cannot be: it has 128 bits
		return ip.String()
	}
	return network.String()
}
