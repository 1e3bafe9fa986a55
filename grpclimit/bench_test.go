package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
)

// BenchmarkInterceptor tells what the interceptor itself costs beside the decision.
func BenchmarkInterceptor(b *testing.B) {
	for name, d := range map[string]shardlimit.Decision{
		"allowed": {Allowed: true, Granted: 1, Limit: 100, Remaining: 42, ResetAfter: 17 * time.Second},
		"denied":  {Limit: 100, RetryAfter: 17 * time.Second},
	} {
		limit := grpclimit.New(grpclimit.One(&says{d: d}), grpclimit.Options{})
		b.Run("unary/"+name, func(b *testing.B) {
			info := &grpc.UnaryServerInfo{FullMethod: "/s/M"}
			nothing := func(context.Context, any) (any, error) { return nil, nil }
			b.ReportAllocs()
			for b.Loop() {
				_, _ = limit.Unary(b.Context(), nil, info, nothing)
			}
		})
		b.Run("stream/"+name, func(b *testing.B) {
			info := &grpc.StreamServerInfo{FullMethod: "/s/M"}
			nothing := func(any, grpc.ServerStream) error { return nil }
			ss := &silent{ctx: b.Context()}
			b.ReportAllocs()
			for b.Loop() {
				_ = limit.Stream(nil, ss, info, nothing)
			}
		})
	}
}

// BenchmarkKey tells what a key costs.
func BenchmarkKey(b *testing.B) {
	for name, key := range map[string]grpclimit.Key{
		"metadata": grpclimit.Metadata("user"),
		"address":  grpclimit.PeerIP,
		"joined":   grpclimit.Join(grpclimit.Metadata("user"), grpclimit.Method),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, c := from(b, "192.0.2.1:7", "user", "ann"), grpclimit.Call{Method: "/s/M"}
			b.ReportAllocs()
			for b.Loop() {
				_ = key(ctx, c)
			}
		})
	}
}

// BenchmarkCall is a whole call over a connection in memory, with and without a limit.
func BenchmarkCall(b *testing.B) {
	for name, limits := range map[string][]*grpclimit.Interceptor{
		"plain":   nil,
		"limited": one(&says{d: shardlimit.Decision{Allowed: true, Granted: 1}}, grpclimit.Options{}),
	} {
		b.Run(name, func(b *testing.B) {
			api := serve(b, &service{}, limits)
			b.ReportAllocs()
			for b.Loop() {
				if err := call(b.Context(), api); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// silent is a stream that nothing comes from.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *silent) Context() context.Context { return s.ctx }
