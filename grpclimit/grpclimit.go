// Package grpclimit limits the rate of gRPC calls with shardlimit: of those that a server handles,
// and of those that a fleet of clients makes (Client). It reads like httplimit, its sibling.
//
// Make one limit for the server, or for each group of methods that shall have one of its own, and
// name its interceptors:
//
//	limit := grpclimit.New(grpclimit.PerKey(users, apiKey), grpclimit.Options{})
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// A call that the limit refuses is answered with RESOURCE_EXHAUSTED. Its details are RetryInfo, the
// time after which another try can succeed, QuotaFailure, which names the policy, and ErrorInfo, in
// whose domain "shardlimit" the reason is Decision.Reason in capitals. The trailer
// grpc-retry-pushback-ms (gRFC A6) tells the same time to the retry policies of gRPC clients.
//
// What happens while Redis is away is Config.OnOutage of the client: with FailOpen and FailLocal
// calls pass; with FailClosed they are answered with UNAVAILABLE.
package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Limiter decides about calls. *shardlimit.Limiter does, and *httplimit.Policies: several limits
// that a call must pass together. QuotaFailure names the one of them that refuses for longest.
type Limiter = httplimit.Limiter

// Call is what an interceptor knows of a call, beside its context.
type Call struct {
	// Method is the whole name of the method, as /package.Service/Method.
	Method string
	// Request is the message of a unary call, or the one that a stream received
	// (Options.EachMessage); nil at the begin of a stream.
	Request any
	// Target is what a client dialled; "" on a server.
	Target string
}

// Chooser says which limiter a call belongs to; nil lets the call pass unlimited. It is called by
// many goroutines at the same time.
type Chooser func(context.Context, Call) Limiter

// Options are what else can be said of a limit. The zero value is ready for use.
type Options struct {
	// Policy is the name of the limit in QuotaFailure; "" means "default". What is not UTF-8 stands
	// there as �. Those of httplimit.All have names of their own.
	Policy string
	// Cost is how many permits a call takes; nil means one. A call that costs 0 passes without
	// asking; a negative cost is ErrInvalidPermits. Call.Request is nil at the begin of a stream.
	Cost func(context.Context, Call) int64
	// EachMessage has each message that a stream receives take permits, too, beside those of its
	// begin. RecvMsg returns the refusal of a message, which is lost; a handler that returns that
	// error ends its call so, one that reads on gets the next message.
	EachMessage bool
	// OnFailed hears of calls and messages about which nothing could be decided, and why; clients
	// are not told. It is called by many goroutines at the same time, and the call waits for it.
	OnFailed func(context.Context, Call, error)
}

// Interceptor is a limit for a server. Its methods Unary and Stream are what grpc.NewServer wants.
// It is safe for concurrent use.
type Interceptor struct {
	o      Options
	choose Chooser
}

// New returns the interceptors of a limit. It panics if choose is nil, because that is a mistake of
// the program.
func New(choose Chooser, o Options) *Interceptor {
	adapter.MustBe(choose, "grpclimit: no Chooser")
	if o.Policy == "" {
		o.Policy = "default"
	}
	return &Interceptor{o: o, choose: choose}
}

// Unary is a grpc.UnaryServerInterceptor.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	ctx, err := i.pass(ctx, Call{Method: info.FullMethod, Request: req})
	if err != nil {
		pushBack(ctx, err)
		return nil, err
	}
	return handler(ctx, req)
}

// Stream is a grpc.StreamServerInterceptor.
func (i *Interceptor) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ctx, err := i.pass(ss.Context(), Call{Method: info.FullMethod})
	if err != nil {
		pushBack(ctx, err)
		return err
	}
	err = handler(srv, &stream{ServerStream: ss, ctx: ctx, limit: i, method: info.FullMethod})
	pushBack(ctx, err)
	return err
}

// stream is a stream that passed.
type stream struct {
	grpc.ServerStream
	ctx    context.Context
	limit  *Interceptor
	method string
}

// Context is that of the call, by which Settle finds what its begin took.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives a message that may pass.
func (s *stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.limit.o.EachMessage {
		return err
	}
	_, err := s.limit.pass(s.ServerStream.Context(), Call{Method: s.method, Request: m})
	return err
}

// pass decides about a call or message: the context for its handler, or the status that answers it.
func (i *Interceptor) pass(ctx context.Context, call Call) (context.Context, error) {
	limiter := i.choose(ctx, call)
	limited, cost := !adapter.IsNil(limiter), int64(1)
	if limited && i.o.Cost != nil {
		cost = i.o.Cost(ctx, call)
	}
	if !limited || cost == 0 {
		return ctx, nil
	}
	p, err := adapter.Pass(ctx, passedKey{}, limiter, cost)
	switch {
	case err != nil:
		return ctx, i.failed(ctx, call, err)
	case !p.Decision.Allowed:
		return ctx, i.denied(limiter, &p.Decision)
	}
	return p, nil
}
