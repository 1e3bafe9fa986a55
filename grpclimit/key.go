package grpclimit

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Key makes the key of a call, for PerKey and Client. It is called by many goroutines at the same
// time. The empty key means that the call has none; PerKey answers it with INVALID_ARGUMENT. Of
// what clients may make up, a key can be longer than shardlimit.MaxName; PerKey takes it all the
// same.
type Key = func(context.Context, Call) string

// One has all calls share one limiter. It panics if that is nil.
func One(l Limiter) Chooser {
	adapter.MustBe(l, "grpclimit: One needs a Limiter")
	return func(context.Context, Call) Limiter { return l }
}

// PerKey gives every key a limit of its own: users, API keys, addresses. A call whose key is empty
// fails with ErrInvalidName; wrap the Chooser to treat it in another way. A key that is longer than
// shardlimit.MaxName bytes is counted by its SHA-256. It panics if family or key is nil.
func PerKey(family *shardlimit.Family, key Key) Chooser {
	adapter.MustBe(family, "grpclimit: PerKey needs a Family")
	adapter.MustBe(key, "grpclimit: PerKey needs a key")
	return func(ctx context.Context, call Call) Limiter { return family.Limiter(adapter.Bounded(key(ctx, call))) }
}

// Metadata is the value of a key of the metadata that the client sent, such as an API key; of
// several values the first. Take only what was verified, or what clients gain nothing by changing:
// who makes up a new value has a fresh limit.
//
// Host is the name under which the server was called, in lower case: gRPC keeps it as :authority.
func Metadata(name string) Key {
	if strings.EqualFold(name, "host") {
		authority := Metadata(":authority")
		return func(ctx context.Context, call Call) string {
			return strings.ToLower(authority(ctx, call))
		}
	}
	return func(ctx context.Context, _ Call) string {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// Method is the whole name of the method. Behind a grpc.UnknownServiceHandler clients make it up.
func Method(_ context.Context, call Call) string { return call.Method }

// Target is what the client dialled, in lower case.
func Target(_ context.Context, call Call) string { return strings.ToLower(call.Target) }

// Address is the key of the client's address behind trusted proxies, by the rules of
// httplimit.Address: an IPv6 address stands for its network of 64 bits, and an IPv4 address has one
// key as such or within IPv6. What proxies say is read in the metadata. It panics as that does.
func Address(o httplimit.AddressOptions) Key {
	address := httplimit.Address(o)
	field := adapter.AddressField(o.Field) // metadata is read in any case
	return func(ctx context.Context, _ Call) string {
		from, ok := peer.FromContext(ctx)
		if !ok || from.Addr == nil {
			return ""
		}
		r := &http.Request{RemoteAddr: from.Addr.String()}
		if o.TrustUnix { // the network is that of both ends
			r = r.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, from.Addr))
		}
		if len(o.Trusted) > 0 || o.TrustUnix {
			r.Header = http.Header{field: metadata.ValueFromIncomingContext(ctx, field)}
		}
		return address(r)
	}
}

// peerIP is what PeerIP is.
var peerIP = Address(httplimit.AddressOptions{})

// PeerIP is the address that the connection comes from. Behind a proxy that is the proxy's; Address
// finds the client's then.
func PeerIP(ctx context.Context, call Call) string { return peerIP(ctx, call) }

// Join makes one key of several, such as user and method. Different parts never make the same key.
// It is empty if one part is.
func Join(keys ...Key) Key {
	return func(ctx context.Context, call Call) string {
		return adapter.Join(keys, func(key Key) string { return key(ctx, call) })
	}
}

// FirstOf is the first key that is not empty, such as the user and, if nobody is logged in, the
// address. Keys of different places are never the same.
func FirstOf(keys ...Key) Key {
	return func(ctx context.Context, call Call) string {
		return adapter.FirstOf(keys, func(key Key) string { return key(ctx, call) })
	}
}
