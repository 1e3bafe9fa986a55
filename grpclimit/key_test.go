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

// Proxies tell of the client in the metadata. The rules are those of httplimit, which tests them.
func TestAddress(t *testing.T) {
	const forwarded, from = "x-forwarded-for", "10.0.0.1:7"
	unix := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "@A"}})
	said := metadata.Pairs(forwarded, "192.0.2.9")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	behind := func(field httplimit.AddressField) grpclimit.Key {
		return grpclimit.Address(httplimit.AddressOptions{Trusted: trusted, Field: field})
	}
	xff := behind(httplimit.XForwardedFor)
	socket := grpclimit.Address(httplimit.AddressOptions{TrustUnix: true})
	for name, c := range map[string]struct {
		key  grpclimit.Key
		ctx  context.Context
		want string
	}{
		"IPv4":               {grpclimit.PeerIP, fromAddress("192.0.2.1:7"), "192.0.2.1"},
		"a network of IPv6":  {grpclimit.PeerIP, fromAddress("[2001:db8::1:2]:7"), "2001:db8::/64"},
		"said, not trusted":  {grpclimit.PeerIP, fromAddress(from, forwarded, "192.0.2.9"), "10.0.0.1"},
		"behind proxies":     {xff, fromAddress(from, "X-Forwarded-For", "6.6.6.6, 192.0.2.9"), "192.0.2.9"},
		"the host":           {grpclimit.Metadata("Host"), fromAddress(from, ":authority", "A.Example"), "a.example"},
		"behind a socket":    {socket, metadata.NewIncomingContext(unix, said), "192.0.2.9"},
		"nothing said":       {xff, fromAddress(from), "10.0.0.1"},
		"Forwarded":          {behind(httplimit.Forwarded), fromAddress(from, "forwarded", "for=::9"), "::/64"},
		"X-Real-IP":          {behind(httplimit.XRealIP), fromAddress(from, "x-real-ip", "192.0.2.9"), "192.0.2.9"},
		"no peer":            {xff, t.Context(), ""},
		"a peer without any": {xff, peer.NewContext(t.Context(), &peer.Peer{}), ""},
		"a socket of Unix":   {xff, unix, "@a"},
	} {
		if got := c.key(c.ctx, grpclimit.Call{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	ctx := fromAddress("192.0.2.1:7", "user", "ann", "user", "bob", "bin-bin", "\xff\x00")
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
}
