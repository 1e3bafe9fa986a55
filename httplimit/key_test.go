package httplimit_test

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// An address has one key however it is spelled and whoever tells it. Only trusted proxies are
// heard.
func TestAddressesBehindProxies(t *testing.T) {
	const stranger, proxy = "192.0.2.7:80", "10.0.0.1:80"
	xff := httplimit.AddressOptions{Trusted: prefixes("::ffff:10.0.0.0/104", "2001:db8:ffff::/48")}
	forwarded, real, socket, few := xff, xff, xff, xff
	forwarded.Field, real.Field, socket.TrustUnix = "forwarded", "X-Real-IP", true
	few.IPv4Bits, few.IPv6Bits = 24, 128
	for name, c := range map[string]struct {
		o      httplimit.AddressOptions
		remote string
		said   string // lines, with | between them
		want   string
	}{
		"nobody is in between":     {xff, stranger, "", "192.0.2.7"},
		"a stranger's word":        {xff, stranger, "1.2.3.4", "192.0.2.7"},
		"a proxy within IPv6":      {xff, "[::ffff:10.0.0.1%eth0]:80", "1.2.3.4", "1.2.3.4"},
		"a proxy of IPv6":          {xff, "[2001:db8:ffff::1]:1", "1.2.3.4", "1.2.3.4"},
		"what a client made up":    {xff, proxy, "6.6.6.6, 1.2.3.4:99,10.9.9.9", "1.2.3.4"},
		"in a line of its own":     {xff, proxy, "6.6.6.6|1.2.3.4", "1.2.3.4"},
		"IPv6":                     {xff, proxy, "2001:DB8::1", "2001:db8::/64"},
		"IPv6 with a port":         {xff, proxy, "[2001:db8::1]:9", "2001:db8::/64"},
		"IPv6 in brackets":         {xff, proxy, "[fe80::1%ETH0]", "fe80::/64"},
		"all are proxies":          {xff, proxy, "10.3.3.3, 10.2.2.2", "10.3.3.3"},
		"an entry is no address":   {xff, proxy, "1.2.3.4, unknown, 10.2.2.2", "10.2.2.2"},
		"too many proxies":         {xff, proxy, "1.2.3.4" + strings.Repeat(",10.0.0.2", 64), "10.0.0.2"},
		"the field is empty":       {xff, proxy, "| , ,", "10.0.0.1"},
		"X-Real-IP":                {real, proxy, "6.6.6.6|1.2.3.4", "1.2.3.4"},
		"X-Real-IP that is none":   {real, proxy, "who", "10.0.0.1"},
		"Forwarded in capitals":    {forwarded, proxy, "For=1.2.3.4;Proto=http", "1.2.3.4"},
		"Forwarded, IPv6":          {forwarded, proxy, `proto=http;for="[2001:db8::1]:7"`, "2001:db8::/64"},
		"a hidden port":            {forwarded, proxy, `for="1.2.3.4:_x"`, "1.2.3.4"},
		"a hidden node":            {forwarded, proxy, `for=1.2.3.4, for=_gazonk`, "10.0.0.1"},
		"a quote left open":        {forwarded, proxy, `for="6.6.6.6, for=1.2.3.4;ext="a b"`, "1.2.3.4"},
		"in a host's quotes":       {forwarded, proxy, `for=1.2.3.4;host="a,for=6.6.6.6;b"`, "10.0.0.1"},
		"there, without another":   {forwarded, proxy, `for=1.2.3.4,host="a;for=6.6.6.6;b"`, "10.0.0.1"},
		"in escaped quotes":        {forwarded, proxy, `for=1.2.3.4;host="\",for=6.6.6.6;b=\""`, "10.0.0.1"},
		"Forwarded, twice":         {forwarded, proxy, `for=1.2.3.4;for=6.6.6.6`, "10.0.0.1"},
		"Forwarded without for":    {forwarded, proxy, `for=6.6.6.6, by=1.2.3.4`, "10.0.0.1"},
		"a socket is not trusted":  {xff, "@A", "1.2.3.4", "@a"},
		"a socket":                 {socket, "", "6.6.6.6, 1.2.3.4, 10.1.1.1", "1.2.3.4"},
		"a peer with a path":       {socket, "/run/proxy.sock", "1.2.3.4", "1.2.3.4"},
		"a socket says no address": {socket, "@", "1.2.3.4, unknown", "@"},
		"an address beside it":     {socket, stranger, "1.2.3.4", "192.0.2.7"},
		"no address, not trusted":  {xff, "Some Name", "1.2.3.4", "some name"},
		"bits of IPv4":             {few, stranger, "", "192.0.2.0/24"},
		"bits of NAT64":            {few, "[64:ff9b::192.0.2.7]:1", "", "192.0.2.0/24"},
		"all bits of IPv6":         {few, proxy, "fe80::1%eth0", "fe80::1"},
		"white space":              {xff, " 192.0.2.7 ", "", "192.0.2.7"},
		"no zone":                  {xff, "fe80::1%", "", "fe80::1%"},
		"IPv4 in brackets":         {xff, "[192.0.2.7]", "", "[192.0.2.7]"},
	} {
		field := http.CanonicalHeaderKey(cmp.Or(c.o.Field, "X-Forwarded-For"))
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{field: strings.Split(c.said, "|")}}
		if got := httplimit.Address(c.o)(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r := &http.Request{RemoteAddr: "@", Header: http.Header{"X-Forwarded-For": {"1.2.3.4"}}}
	for want, local := range map[string]net.Addr{"@": &net.TCPAddr{}, "1.2.3.4": &net.UnixAddr{Net: "unix"}} {
		on := r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		if got := httplimit.Address(socket)(on); got != want {
			t.Errorf("a peer that has no address, over %s, is %q", local.Network(), got)
		}
	}
}

// FuzzKeys: no request makes a key that a limit cannot have, or panics.
func FuzzKeys(f *testing.F) {
	f.Add("10.0.0.1:80", `for="[2001:db8::1]:7";ext="a,b\"", for=1.2.3.4`, "for=6.6.6.6")
	f.Add("[::ffff:10.0.0.1%e]:1", "1.2.3.4, ,unknown", `"\\`)
	f.Add("@", strings.Repeat(",", 200), strings.Repeat(`"`, 2000))
	long := strings.Repeat("a", shardlimit.MaxName+1)
	f.Add(long, long, "a="+long)
	family := limittest.InProcess(f, 1).Family(f, shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Off})
	f.Fuzz(func(t *testing.T, remote, a, b string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{}, Method: a, Pattern: a, Host: a,
			URL: &url.URL{Host: a}}
		for _, field := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cookie"} {
			r.Header[field] = []string{a, b}
		}
		said := func(*http.Request) string { return a }
		keys := []httplimit.Key{said, httplimit.RemoteIP, httplimit.Header("Forwarded"), httplimit.Header("Host"),
			httplimit.Cookie("a"), httplimit.Method, httplimit.Route, httplimit.Host,
			httplimit.Address(httplimit.AddressOptions{TrustUnix: true, Field: "Forwarded"}),
			httplimit.Join(said, said), httplimit.FirstOf(said, said)}
		for _, field := range []string{"", "Forwarded", "X-Real-IP"} {
			for _, trusted := range [][]netip.Prefix{prefixes("0.0.0.0/0", "::/0"), prefixes("10.0.0.0/8")} {
				keys = append(keys, httplimit.Address(httplimit.AddressOptions{Trusted: trusted, Field: field}))
			}
		}
		for i, key := range keys {
			waiter := httplimit.WaitPerKey(family, key)(r)
			if _, err := httplimit.PerKey(family, key)(r).AllowN(t.Context(), 1); key(r) != "" && err != nil {
				t.Errorf("key %d of %d bytes: %v", i, len(key(r)), err)
			}
			if _, err := waiter.Acquire(t.Context(), 1); key(r) != "" && err != nil {
				t.Errorf("a Waiter of key %d, of %d bytes: %v", i, len(key(r)), err)
			}
		}
	})
}
