package httplimit

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/internal/adapter"
)

// AddressOptions say how the address of a client is found. The zero value takes the address that
// the connection comes from.
type AddressOptions struct {
	// Trusted are the networks of proxies whose word is taken. What other peers say is not read.
	Trusted []netip.Prefix
	// TrustUnix takes the word of peers on a Unix socket, too. They have no address, so that
	// Trusted cannot name them; who may write to the socket is a matter of its file.
	TrustUnix bool
	// Field is the header field that these proxies write; "" means X-Forwarded-For, to which each
	// appends the address it was called from. Of Forwarded (RFC 7239) the parameter for is read.
	// One with a single address, such as X-Real-IP, the proxy must overwrite. It is one field,
	// because proxies pass on what clients say in the others.
	Field string
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
// a prefix is invalid, or Field cannot be the name of a field.
func Address(o AddressOptions) Key {
	o.IPv4Bits, o.IPv6Bits = cmp.Or(o.IPv4Bits, 32), cmp.Or(o.IPv6Bits, 64)
	if o.IPv4Bits < 1 || o.IPv4Bits > 32 || o.IPv6Bits < 1 || o.IPv6Bits > 128 {
		panic(fmt.Sprintf("httplimit: an address cannot be told by %d bits of IPv4, %d of IPv6", o.IPv4Bits,
			o.IPv6Bits))
	}
	o.Field = adapter.AddressField(o.Field)
	o.Trusted = slices.Clone(o.Trusted)
	for i, p := range o.Trusted {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if !p.IsValid() {
			panic("httplimit: one of the trusted prefixes is invalid")
		}
		o.Trusted[i] = p
	}
	return o.of
}

// of is the key of the address of a request. Bits and Field are set, and Trusted has IPv4 as such.
func (o *AddressOptions) of(r *http.Request) string {
	ip := parseIP(r.RemoteAddr)
	if ip.IsValid() && o.trusts(ip) || !ip.IsValid() && o.TrustUnix && onSocket(r) {
		ip = o.behind(r.Header, ip)
	}
	if !ip.IsValid() {
		return strings.ToLower(r.RemoteAddr)
	}
	return o.key(ip)
}

// onSocket reports whether a peer without an address is on a Unix socket. The server knows; else it
// is what the names of such peers look like.
func onSocket(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}

// maxHops bounds how many proxies are walked over. More are no chain that somebody built.
const maxHops = 64

// behind walks to the left over trusted proxies, beginning at one; the zero address is one that has
// none.
func (o *AddressOptions) behind(h http.Header, ip netip.Addr) netip.Addr {
	list := strings.Join(h[o.Field], ",")
	for at, hops := len(list), 0; at >= 0 && hops < maxHops; hops++ {
		list = list[:at]
		at = strings.LastIndexByte(list, ',')
		entry := strings.TrimSpace(list[at+1:])
		if o.Field == "Forwarded" {
			entry = forwardedFor(entry)
		}
		next := parseIP(entry)
		if !next.IsValid() {
			break
		}
		if ip = next; !o.trusts(ip) {
			break
		}
	}
	return ip
}

// forwardedFor is the address in an element of Forwarded, "" if it has none or several. What a
// proxy quotes may be a client's, such as the name of a host: with a separator or an escape in
// it, which no address has, the element has none.
func forwardedFor(element string) (node string) {
	for parameter := range strings.SplitSeq(element, ";") {
		if strings.Contains(parameter, `\`) || strings.Count(parameter, `"`)%2 != 0 {
			return ""
		}
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = strings.Trim(strings.TrimSpace(value), `"`)
	}
	node, _, _ = strings.Cut(node, ":_") // a port that is hidden
	return node
}

func (o *AddressOptions) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(o.Trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// nat64 is the network of IPv6 in which translators put the addresses of IPv4 (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func (o *AddressOptions) key(ip netip.Addr) string {
	if nat64.Contains(ip) { // else all these clients were one
		all := ip.As16()
		ip = netip.AddrFrom4([4]byte(all[12:]))
	}
	bits := o.IPv4Bits
	if ip.Is6() {
		bits = o.IPv6Bits
	}
	if bits == ip.BitLen() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, bits).Masked().String()
}

// parseIP reads an address with or without port and brackets; the zero address if it is none. It
// has no zone, and an IPv4 address is as such.
func parseIP(s string) netip.Addr {
	s = strings.TrimSpace(s)
	withPort := s
	if strings.HasSuffix(s, "]") {
		withPort += ":0"
	}
	at, err := netip.ParseAddrPort(withPort)
	ip := at.Addr()
	if err != nil {
		ip, _ = netip.ParseAddr(s)
	}
	return ip.Unmap().WithZone("")
}
