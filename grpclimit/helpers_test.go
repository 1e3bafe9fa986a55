package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// says is a limiter that gives a fixed answer.
type says struct {
	d     shardlimit.Decision
	err   error
	asked int64
}

func (s *says) AllowN(_ context.Context, n int64) (shardlimit.Decision, error) {
	s.asked = n
	return s.d, s.err
}

func (s *says) Settle(context.Context, shardlimit.Decision, int64) error { return s.err }

// service counts what it served.
type service struct {
	testpb.UnimplementedTestServiceServer
	served atomic.Int64
	do     func(context.Context) error
	reads  bool // on after a message that was refused
}

func (s *service) UnaryCall(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	s.served.Add(1)
	if s.do != nil {
		if err := s.do(ctx); err != nil {
			return nil, err
		}
	}
	return &testpb.SimpleResponse{}, nil
}

// FullDuplexCall answers each message that it receives.
func (s *service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	if s.do != nil {
		if err := s.do(stream.Context()); err != nil {
			return err
		}
	}
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && s.reads {
			continue
		}
		if err != nil {
			return err
		}
		s.served.Add(1)
		if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serve has a service behind limits, over bufconn, and returns a client of it.
func serve(t testing.TB, s *service, limits []*grpclimit.Interceptor,
	dial ...grpc.DialOption) testpb.TestServiceClient {
	t.Helper()
	var options []grpc.ServerOption
	for _, limit := range limits {
		options = append(options,
			grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	}
	server := grpc.NewServer(options...)
	testpb.RegisterTestServiceServer(server, s)
	listener := bufconn.Listen(1 << 16)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		limittest.Must(t, <-ended)
	})
	conn, err := grpc.NewClient("passthrough:///Test", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
	}, dial...)...)
	limittest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

func one(l grpclimit.Limiter, o grpclimit.Options) []*grpclimit.Interceptor {
	return []*grpclimit.Interceptor{grpclimit.New(grpclimit.One(l), o)}
}

func call(ctx context.Context, c testpb.TestServiceClient, opts ...grpc.CallOption) error {
	_, err := c.UnaryCall(ctx, &testpb.SimpleRequest{}, opts...)
	return err
}

// details are those of a refusal.
func details(t testing.TB, err error) (retry time.Duration, quota *errdetails.QuotaFailure_Violation) {
	t.Helper()
	reason := ""
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			if len(d.GetViolations()) == 1 {
				quota = d.GetViolations()[0]
			}
		}
	}
	if retry == 0 || quota == nil || reason != "FULL" {
		t.Fatalf("the details of %v are %v", err, status.Convert(err).Details())
	}
	return retry, quota
}
