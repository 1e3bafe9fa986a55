package httplimit

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// One has all requests share one limiter.
func One(l Limiter) Chooser {
	return func(*http.Request) Limiter { return l }
}

// PerKey gives every key a limit of its own: users, API keys, addresses. A request whose key is
// empty or longer than shardlimit.MaxName bytes fails with ErrInvalidName; wrap the Chooser to
// treat it in another way.
func PerKey(family *shardlimit.Family, key func(*http.Request) string) Chooser {
	return func(r *http.Request) Limiter { return family.Limiter(key(r)) }
}

// RemoteIP is a key for PerKey: the address that the request came from. Of an
// IPv6 address it is the network of 64 bits, because whoever has one address of
// it has all. An address has one key however Request.RemoteAddr spells it: with a
// port or, as middleware for proxies leaves it, without; an IPv4 address as such or
// within IPv6. What is no address is a key as it stands, in lower case.
// Behind a proxy that is the proxy's address; take the key from a header then that
// the proxy sets and that clients cannot forge.
func RemoteIP(r *http.Request) string {
	ip, err := parseIP(r.RemoteAddr)
	if err != nil {
		return strings.ToLower(r.RemoteAddr)
	}
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil { // cannot be: it has 128 bits
		return ip.String()
	}
	return network.String()
}

// parseIP reads an address with or without port and brackets.
func parseIP(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr(), nil
	}
	if inner, found := strings.CutPrefix(s, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		if ip, err := netip.ParseAddr(inner); found && err == nil && ip.Is6() {
			return ip, nil
		}
	}
	return netip.ParseAddr(s)
}
