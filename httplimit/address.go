package httplimit

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/shardlimit/shardlimit/internal/adapter"
)

// AddressField is the header field in which proxies tell whom they speak for.
type AddressField int

const (
	// XForwardedFor is X-Forwarded-For, to which each proxy appends the address it was called from.
	XForwardedFor AddressField = iota
	// Forwarded is the field of RFC 7239, of which the parameter for is read.
	Forwarded
	// XRealIP is X-Real-IP, one address, which the proxy must overwrite.
	XRealIP
)

// AddressOptions say how the address of a client is found. The zero value takes the address that
// the connection comes from.
type AddressOptions struct {
	// Trusted are the networks of proxies whose word is taken. What other peers say is not read.
	Trusted []netip.Prefix
	// TrustUnix takes the word of peers on a Unix socket, too. They have no address, so that
	// Trusted cannot name them; who may write to the socket is a matter of its file.
	TrustUnix bool
	// Field is the field that these proxies write. It is one, because proxies pass on what clients
	// say in the others.
	Field AddressField
	// IPv4Bits is how many bits of an IPv4 address tell clients apart, 1 to 32; 0 means 32.
	IPv4Bits int
	// IPv6Bits is how many bits of an IPv6 address tell clients apart, 1 to 128; 0 means 64,
	// because whoever has one address of a network of 64 bits has all.
	IPv6Bits int
}

// Address is the key of the client's address behind trusted proxies. The field is walked from the
// right, over the addresses that are trusted, to the first that is not; what stands to the left of
// it the client may have made up. If all are trusted it is the leftmost. An entry that is no
// address, such as "unknown", ends the walk at the proxy that wrote it.
//
// An address has one key however it is spelled: with or without port and zone, an IPv4 address as
// such or within IPv6, as NAT64 has it, too. A peer that has none, as on a Unix socket, is a key as
// it stands, in lower case, unless TrustUnix has another found. It panics if bits are out of range,
// a prefix is invalid, or Field is none.
func Address(o AddressOptions) Key {
	a := &addresses{field: o.Field, unix: o.TrustUnix, v4: o.IPv4Bits, v6: o.IPv6Bits}
	if a.v4 == 0 {
		a.v4 = 32
	}
	if a.v6 == 0 {
		a.v6 = 64
	}
	if a.v4 < 1 || a.v4 > 32 || a.v6 < 1 || a.v6 > 128 || o.Field < XForwardedFor || o.Field > XRealIP {
		panic(fmt.Sprintf("httplimit: an address cannot be told by %d bits of IPv4, %d of IPv6, field %d",
			o.IPv4Bits, o.IPv6Bits, o.Field))
	}
	for _, p := range o.Trusted {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if !p.IsValid() {
			panic("httplimit: one of the trusted prefixes is invalid")
		}
		a.trusted = append(a.trusted, p.Masked())
	}
	return a.of
}

type addresses struct {
	trusted []netip.Prefix
	unix    bool
	field   AddressField
	v4, v6  int
}

// maxHops bounds how many proxies are walked over. More are no chain that somebody built.
const maxHops = 64

func (a *addresses) of(r *http.Request) string {
	ip, err := parseIP(r.RemoteAddr)
	if err != nil {
		if a.unix && onSocket(r) {
			ip = a.behind(r.Header, netip.Addr{})
		}
		if !ip.IsValid() {
			return adapter.Bounded(strings.ToLower(r.RemoteAddr))
		}
		return a.key(ip)
	}
	ip = plain(ip)
	if len(a.trusted) > 0 && a.trusts(ip) {
		ip = a.behind(r.Header, ip)
	}
	return a.key(ip)
}

// onSocket reports whether a peer without an address is on a Unix socket. The server knows; else it
// is what the names of such peers look like.
func onSocket(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}

// behind walks to the left over trusted proxies, beginning at one; the zero address is one that has
// none.
func (a *addresses) behind(h http.Header, ip netip.Addr) netip.Addr {
	var walk walk
	switch a.field {
	case XForwardedFor:
		walk.lines = h["X-Forwarded-For"]
	case Forwarded:
		walk.lines = h["Forwarded"]
	case XRealIP:
		if lines := h["X-Real-Ip"]; len(lines) > 0 {
			if next, err := parseIP(lines[len(lines)-1]); err == nil {
				return plain(next)
			}
		}
		return ip
	}
	for range maxHops {
		entry, ok := walk.next()
		if !ok {
			break
		}
		if a.field == Forwarded {
			entry = forwardedFor(entry)
		}
		next, err := parseIP(entry)
		if err != nil {
			break
		}
		if ip = plain(next); !a.trusts(ip) {
			break
		}
	}
	return ip
}

func (a *addresses) trusts(ip netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// nat64 is the network of IPv6 in which translators put the addresses of IPv4 (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func (a *addresses) key(ip netip.Addr) string {
	if nat64.Contains(ip) { // else all these clients were one
		all := ip.As16()
		ip = netip.AddrFrom4([4]byte(all[12:]))
	}
	bits := a.v4
	if ip.Is6() {
		bits = a.v6
	}
	if bits == ip.BitLen() {
		return ip.String()
	}
	network, err := ip.Prefix(bits)
	if err != nil { // cannot be: it has as many bits
		return ip.String()
	}
	return network.String()
}

// plain is the address without a zone, and an IPv4 address as such.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

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
