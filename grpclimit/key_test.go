package grpclimit_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// from is the context of a call from an address, with metadata as pairs.
func from(t testing.TB, address string, md ...string) context.Context {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(at)})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(md...))
}

// proxied is the context of a call from a trusted proxy.
func proxied(t testing.TB, md ...string) context.Context {
	t.Helper()
	return from(t, "10.0.0.1:7", md...)
}

func TestAddress(t *testing.T) {
	const forwarded = "x-forwarded-for"
	unix := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "@A"}})
	said := metadata.Pairs(forwarded, "192.0.2.9")
	bad := strings.Repeat("\x00,\"", 1<<16)
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	proxies := map[httplimit.AddressField]grpclimit.Key{}
	for _, field := range []httplimit.AddressField{httplimit.XForwardedFor, httplimit.Forwarded, httplimit.XRealIP} {
		proxies[field] = grpclimit.Address(httplimit.AddressOptions{Trusted: trusted, Field: field})
	}
	behind := proxies[httplimit.XForwardedFor]
	socket := grpclimit.Address(httplimit.AddressOptions{TrustUnix: true})
	for name, c := range map[string]struct {
		key  grpclimit.Key
		ctx  context.Context
		want string
	}{
		"IPv4":                {grpclimit.PeerIP, from(t, "192.0.2.1:7"), "192.0.2.1"},
		"IPv4 within IPv6":    {grpclimit.PeerIP, from(t, "[::ffff:192.0.2.1]:7"), "192.0.2.1"},
		"a network of IPv6":   {grpclimit.PeerIP, from(t, "[2001:db8::1:2]:7"), "2001:db8::/64"},
		"said, not trusted":   {grpclimit.PeerIP, proxied(t, forwarded, "192.0.2.9"), "10.0.0.1"},
		"behind proxies":      {behind, proxied(t, "X-Forwarded-For", "6.6.6.6, 192.0.2.9, 10.2.2.2"), "192.0.2.9"},
		"in several values":   {behind, proxied(t, forwarded, "6.6.6.6", forwarded, "192.0.2.9"), "192.0.2.9"},
		"not from a proxy":    {behind, from(t, "192.0.2.1:7", forwarded, "192.0.2.9"), "192.0.2.1"},
		"the host":            {grpclimit.Metadata("Host"), proxied(t, ":authority", "Api.Example"), "api.example"},
		"behind a socket":     {socket, metadata.NewIncomingContext(unix, said), "192.0.2.9"},
		"behind no socket":    {socket, proxied(t, forwarded, "192.0.2.9"), "10.0.0.1"},
		"nothing said":        {behind, proxied(t), "10.0.0.1"},
		"in another field":    {behind, proxied(t, "forwarded", "for=192.0.2.9"), "10.0.0.1"},
		"Forwarded":           {proxies[httplimit.Forwarded], proxied(t, "forwarded", "for=192.0.2.9"), "192.0.2.9"},
		"X-Real-IP":           {proxies[httplimit.XRealIP], proxied(t, "x-real-ip", "192.0.2.9"), "192.0.2.9"},
		"no peer":             {behind, t.Context(), ""},
		"a peer without any":  {behind, peer.NewContext(t.Context(), &peer.Peer{}), ""},
		"a socket of Unix":    {behind, unix, "@a"},
		"a value that is bad": {behind, proxied(t, forwarded, bad), "10.0.0.1"},
	} {
		if got := c.key(c.ctx, grpclimit.Call{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	ctx := from(t, "192.0.2.1:7", "user", "ann", "user", "bob", "bin-bin", "\xff\x00")
	c := grpclimit.Call{Method: "/s/M", Target: "DNS:///Host"}
	none, user := grpclimit.Metadata("none"), grpclimit.Metadata("User")
	for name, k := range map[string]struct {
		key  grpclimit.Key
		want string
	}{
		"metadata":       {user, "ann"},
		"none":           {none, ""},
		"bytes":          {grpclimit.Metadata("bin-bin"), "\xff\x00"},
		"method":         {grpclimit.Method, "/s/M"},
		"target":         {grpclimit.Target, "dns:///host"},
		"user":           {grpclimit.User(func(context.Context, grpclimit.Call) string { return "eve" }), "eve"},
		"joined":         {grpclimit.Join(user, grpclimit.Method), "3:ann4:/s/M"},
		"joined to none": {grpclimit.Join(user, none), ""},
		"first":          {grpclimit.FirstOf(none, user), "1:ann"},
		"first of none":  {grpclimit.FirstOf(none), ""},
	} {
		if got := k.key(ctx, c); got != k.want {
			t.Errorf("%s: %q, want %q", name, got, k.want)
		}
	}
}

// Whatever clients send, a key is short, and a call without one is answered.
func TestHostileMetadata(t *testing.T) {
	client, _ := open(t)
	family, err := client.Family(t.Context(), "users", shardlimit.PerHour(1))
	if err != nil {
		t.Fatal(err)
	}
	user := grpclimit.Metadata("user")
	limit := grpclimit.New(grpclimit.PerKey(family, user), grpclimit.Options{})
	api := serve(t, &service{}, []*grpclimit.Interceptor{limit})
	if err := call(t.Context(), api); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a key: %v", err)
	}
	for _, value := range []string{strings.Repeat("x", 8000), "sha256:" + strings.Repeat("0", 64)} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "user", value)
		if err := call(ctx, api); err != nil {
			t.Errorf("%.10s: %v", value, err)
		}
		if err := call(ctx, api); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%.10s a second time: %v", value, err)
		}
	}
	for _, key := range []grpclimit.Key{user, grpclimit.Join(user, user), grpclimit.FirstOf(user, user)} {
		got := key(from(t, "192.0.2.1:7", "user", strings.Repeat("\xff\x00{}", 1<<16)), grpclimit.Call{})
		if len(got) == 0 || len(got) > shardlimit.MaxName {
			t.Errorf("a key of %d bytes", len(got))
		}
	}
}
