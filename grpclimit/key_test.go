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
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Proxies tell of the client in the metadata. The rules are those of httplimit, which tests them.
func TestAddress(t *testing.T) {
	const forwarded, from = "x-forwarded-for", "10.0.0.1:7"
	unix := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "proxy.sock", Net: "unix"}})
	behind := func(field string) grpclimit.Key {
		return grpclimit.Address(httplimit.AddressOptions{
			Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Field: field})
	}
	xff := behind("")
	socket := grpclimit.Address(httplimit.AddressOptions{TrustUnix: true})
	for name, c := range map[string]struct {
		key  grpclimit.Key
		ctx  context.Context
		want string
	}{
		"said, not trusted": {grpclimit.PeerIP, fromAddress(from, forwarded, "192.0.2.9"), "10.0.0.1"},
		"the host":          {grpclimit.Metadata("Host"), fromAddress(from, ":authority", "A.Example"), "a.example"},
		"behind a socket": {socket, metadata.NewIncomingContext(unix, metadata.Pairs(forwarded, "192.0.2.9")),
			"192.0.2.9"},
		"nothing said":       {xff, fromAddress(from), "10.0.0.1"},
		"Forwarded":          {behind("Forwarded"), fromAddress(from, "forwarded", "for=::9"), "::/64"},
		"X-Real-IP":          {behind("X-Real-IP"), fromAddress(from, "x-real-ip", "192.0.2.9"), "192.0.2.9"},
		"no peer":            {xff, t.Context(), ""},
		"a peer without any": {xff, peer.NewContext(t.Context(), &peer.Peer{}), ""},
	} {
		if got := c.key(c.ctx, grpclimit.Call{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever clients send, a key counts as one, on both sides. A call without one is answered.
func TestKeysOfAnyLength(t *testing.T) {
	long := strings.Repeat("x", 8000)
	user := grpclimit.Metadata("user")
	family := limittest.InProcess(t, 1).Family(t, shardlimit.PerHour(1))
	limit := grpclimit.New(grpclimit.PerKey(family, user), grpclimit.Options{})
	if err := handle(t.Context(), limit, served); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a key: %v", err)
	}
	for _, value := range []string{long, "sha256:" + strings.Repeat("0", 64)} {
		for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			if err := handle(fromAddress("192.0.2.1:7", "user", value), limit, served); status.Code(err) != want {
				t.Errorf("%.10s: %v, want %s", value, err, want)
			}
		}
	}
	_, err := grpclimit.WaitPerKey(family, grpclimit.Method)(t.Context(), grpclimit.Call{Method: long + "y"}).
		Acquire(t.Context(), 1)
	limittest.Must(t, err)
}
