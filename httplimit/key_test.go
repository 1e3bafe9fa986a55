package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

var trusted = prefixes("10.0.0.0/8", "2001:db8:ffff::/48")

func TestAddressesBehindProxies(t *testing.T) {
	const proxy, xff, forwarded, real = "10.0.0.1:80", httplimit.XForwardedFor, httplimit.Forwarded, httplimit.XRealIP
	for name, c := range map[string]struct {
		field  httplimit.AddressField
		remote string
		said   string // lines, with | between them
		want   string
	}{
		"nobody is in between":    {xff, "192.0.2.7:80", "", "192.0.2.7"},
		"a stranger's word":       {xff, "192.0.2.7:80", "1.2.3.4", "192.0.2.7"},
		"a proxy":                 {xff, proxy, "1.2.3.4", "1.2.3.4"},
		"a proxy within IPv6":     {xff, "[::ffff:10.0.0.1]:80", "1.2.3.4", "1.2.3.4"},
		"a proxy of IPv6":         {xff, "[2001:db8:ffff::1]:1", "1.2.3.4", "1.2.3.4"},
		"what a client made up":   {xff, proxy, "6.6.6.6, 1.2.3.4,10.9.9.9", "1.2.3.4"},
		"in a line of its own":    {xff, proxy, "6.6.6.6|1.2.3.4", "1.2.3.4"},
		"with a port":             {xff, proxy, "1.2.3.4:99", "1.2.3.4"},
		"IPv6":                    {xff, proxy, "2001:db8::1", "2001:db8::/64"},
		"IPv6 with a port":        {xff, proxy, "[2001:db8::1]:9", "2001:db8::/64"},
		"all are proxies":         {xff, proxy, "10.3.3.3, 10.2.2.2", "10.3.3.3"},
		"an entry is no address":  {xff, proxy, "1.2.3.4, unknown, 10.2.2.2", "10.2.2.2"},
		"the field is empty":      {xff, proxy, "| , ,", "10.0.0.1"},
		"a Unix socket":           {xff, "@", "1.2.3.4", "@"},
		"a Unix socket, no name":  {xff, "", "1.2.3.4", ""},
		"X-Real-IP":               {real, proxy, "1.2.3.4", "1.2.3.4"},
		"X-Real-IP that is none":  {real, proxy, "who", "10.0.0.1"},
		"X-Real-IP of a stranger": {real, "192.0.2.7:80", "1.2.3.4", "192.0.2.7"},
		"Forwarded in capitals":   {forwarded, proxy, "For=1.2.3.4;Proto=http", "1.2.3.4"},
		"Forwarded, IPv6":         {forwarded, proxy, `proto=http;for="[2001:db8::1]:7"`, "2001:db8::/64"},
		"a hidden port":           {forwarded, proxy, `for="1.2.3.4:_x"`, "1.2.3.4"},
		"a hidden node":           {forwarded, proxy, `for=1.2.3.4, for=_gazonk`, "10.0.0.1"},
		"a quote left open": {forwarded, proxy, `for="6.6.6.6, for=1.2.3.4;ext="a,b;for=7.7.7.7"`,
			"1.2.3.4"},
		"Forwarded, twice":      {forwarded, proxy, `for=1.2.3.4;for=6.6.6.6`, "10.0.0.1"},
		"Forwarded without for": {forwarded, proxy, `for=6.6.6.6, by=1.2.3.4`, "10.0.0.1"},
		"Forwarded over two":    {forwarded, proxy, "for=6.6.6.6|for=1.2.3.4, for=10.1.1.1", "1.2.3.4"},
	} {
		field := []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"}[c.field]
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{field: strings.Split(c.said, "|")}}
		if got := httplimit.Address(httplimit.AddressOptions{Trusted: trusted, Field: c.field})(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A proxy on a Unix socket has no address; it is trusted only if that was said.
func TestAddressesBehindAProxyOnASocket(t *testing.T) {
	unix := &net.UnixAddr{Name: "/run/web.sock", Net: "unix"}
	tcp := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 80}
	key := httplimit.Address(httplimit.AddressOptions{TrustUnix: true, Trusted: trusted})
	for name, c := range map[string]struct {
		remote string
		local  net.Addr
		field  string
		want   string
	}{
		"on Linux":                  {"@", unix, "1.2.3.4", "1.2.3.4"},
		"elsewhere":                 {"", unix, "1.2.3.4", "1.2.3.4"},
		"with a name":               {"/run/proxy.sock", unix, "1.2.3.4", "1.2.3.4"},
		"over another proxy":        {"@", unix, "6.6.6.6, 1.2.3.4, 10.1.1.1", "1.2.3.4"},
		"the listener is not known": {"@", nil, "1.2.3.4", "1.2.3.4"},
		"no name, nor listener":     {"", nil, "1.2.3.4", "1.2.3.4"},
		"it says nothing":           {"@", unix, "", "@"},
		"it says no address":        {"@", unix, "1.2.3.4, unknown", "@"},
		"an address was found":      {"192.0.2.7", unix, "1.2.3.4", "192.0.2.7"},
		"made up by a client":       {"@", tcp, "1.2.3.4", "@"},
		"no address, nor socket":    {"Some Name", nil, "1.2.3.4", "some name"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": {c.field}}}
		if c.local != nil {
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.local))
		}
		if got := key(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestBitsOfAddresses(t *testing.T) {
	key := httplimit.Address(httplimit.AddressOptions{IPv4Bits: 24, IPv6Bits: 48})
	for remote, want := range map[string]string{"192.0.2.7:1": "192.0.2.0/24",
		"[64:ff9b::192.0.2.7]:1": "192.0.2.0/24",
		"[2001:db8:1:2::3]:1":    "2001:db8:1::/48"} {
		if got := key(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
	key = httplimit.Address(httplimit.AddressOptions{IPv6Bits: 128, Trusted: prefixes("::ffff:10.0.0.0/104")})
	if got := key(&http.Request{RemoteAddr: "10.1.2.3",
		Header: http.Header{"X-Forwarded-For": {"fe80::1%eth0"}}}); got != "fe80::1" {
		t.Errorf("behind a prefix of IPv4 within IPv6: %s", got)
	}
}

func TestKeysFromRequests(t *testing.T) {
	r := &http.Request{Method: http.MethodPost, Pattern: "POST /orders/{id}", Host: "Api.Example:8080",
		Header: http.Header{
			"X-Api-Key": {"ann", "bob"}, "Cookie": {"session=s1; other=x"}}}
	user := httplimit.User(func(*http.Request) string { return "u7" })
	none := httplimit.Header("X-None")
	long := strings.Repeat("a", shardlimit.MaxName+1)
	for name, c := range map[string]struct {
		key  httplimit.Key
		want string
	}{
		"header":              {httplimit.Header("x-api-KEY"), "ann"},
		"no header":           {none, ""},
		"the host":            {httplimit.Header("host"), "api.example:8080"},
		"cookie":              {httplimit.Cookie("session"), "s1"},
		"no cookie":           {httplimit.Cookie("none"), ""},
		"route":               {httplimit.Route, "POST /orders/{id}"},
		"method":              {httplimit.Method, "POST"},
		"user":                {user, "u7"},
		"joined":              {httplimit.Join(user, httplimit.Method), "2:u74:POST"},
		"joined with none":    {httplimit.Join(user, none), ""},
		"the first":           {httplimit.FirstOf(user, httplimit.Method), "0:u7"},
		"the second":          {httplimit.FirstOf(none, httplimit.Method), "1:POST"},
		"none of them":        {httplimit.FirstOf(none, none), ""},
		"longer than allowed": {httplimit.User(func(*http.Request) string { return long }), "sha256:"},
	} {
		got := c.key(r)
		if got != c.want && (c.want != "sha256:" || !strings.HasPrefix(got, c.want)) || len(got) > shardlimit.MaxName {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if again := httplimit.User(func(*http.Request) string { return got })(r); strings.HasPrefix(got, "sha256:") &&
			again == got {
			t.Errorf("%s: who sends the hash has the key", name)
		}
	}
}

// FuzzKeys: no header makes a key too long, or panics, and joined keys tell their parts apart.
func FuzzKeys(f *testing.F) {
	f.Add("10.0.0.1:80", `for="[2001:db8::1]:7";ext="a,b\"", for=1.2.3.4`, "for=6.6.6.6")
	f.Add("[::ffff:10.0.0.1%e]:1", "1.2.3.4, ,unknown", `"\\`)
	f.Add("@", strings.Repeat(",", 200), strings.Repeat(`"`, 2000))
	f.Fuzz(func(t *testing.T, remote, a, b string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
		for _, field := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cookie"} {
			r.Header[field] = []string{a, b}
		}
		say := func(s string) httplimit.Key { return func(*http.Request) string { return s } }
		keys := []httplimit.Key{httplimit.RemoteIP, httplimit.Header("Forwarded"), httplimit.Cookie("a"),
			httplimit.Address(httplimit.AddressOptions{TrustUnix: true, Field: httplimit.Forwarded}),
			httplimit.Join(say(a), say(b)), httplimit.FirstOf(say(a), say(b)), httplimit.User(say(a))}
		for field := range httplimit.XRealIP + 1 {
			keys = append(keys,
				httplimit.Address(httplimit.AddressOptions{Trusted: prefixes("0.0.0.0/0", "::/0"), Field: field}),
				httplimit.Address(httplimit.AddressOptions{Trusted: trusted, Field: field}))
		}
		for i, key := range keys {
			if got := key(r); len(got) > shardlimit.MaxName {
				t.Errorf("key %d has %d bytes", i, len(got))
			}
		}
		if a != "" && b != "" && a != b && httplimit.Join(say(a), say(b))(r) == httplimit.Join(say(b), say(a))(r) {
			t.Errorf("%q and %q make one key in either order", a, b)
		}
		if c := a + b; a != "" && len(b) > 1 {
			if httplimit.Join(say(a), say(b))(r) == httplimit.Join(say(c[:len(a)+1]), say(c[len(a)+1:]))(r) {
				t.Errorf("%q is parted at two places into one key", c)
			}
		}
	})
}
